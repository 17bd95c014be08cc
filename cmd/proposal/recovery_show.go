package proposal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/plan"
)

// text returns the survivors, and what will or would be done.
func (s recovery) text(survivor string, act bool) string {
	var b strings.Builder
	t := show.Table("SLOT", "NODE", "STATE", "TERM", "INDEX", "REVISION", "DISK", "")
	for _, v := range s.Slots {
		row := []any{v.Slot, cmp.Or(v.Node, "-"), survivorState(v), "-", "-", "-", cmp.Or(v.Disk, "-"), ""}
		if v.Here {
			row[3], row[4] = v.Log.Term, v.Log.Index
		}
		if rev := s.Revisions[v.Slot]; rev > 0 {
			row[5] = rev
		}
		if v.Best {
			row[7] = "most advanced"
		}
		t.AppendRow(row)
	}
	fmt.Fprintf(&b, "recovery of cluster %s, from generation %d to %d\n\n%s\n\n", s.Record.Cluster, s.Record.Generation,
		s.Record.Generation+1, t.Render())
	fmt.Fprintf(&b, "newest backup: %s\n", s.backup(time.Now()))
	if !s.Able || s.poorer(survivor) != nil {
		return b.String()
	}
	fmt.Fprintf(&b, "slot %s continues with all that its log holds; the others join it, and what their disks hold is "+
		"set aside\n", s.Chosen.Slot)
	if len(s.Declare) > 0 {
		fmt.Fprintf(&b, "%s must be declared lost: if one of them is alive after all, what it acknowledges alone is not in "+
			"the cluster\n", strings.Join(s.Declare, ", "))
		if s.Majority() {
			b.WriteString("but a majority of the voters is here: if their nodes reach each other, nothing has to be lost\n")
		}
	}
	if !act {
		fmt.Fprintf(&b, "\nnothing was changed; to do it: %s\n", s.command(survivor))
	}
	return b.String()
}

// command returns the command that carries out the recovery.
func (s recovery) command(survivor string) string {
	words := []string{"holdfast recover"}
	if len(s.Declare) > 0 {
		words = append(words, "--lost "+strings.Join(s.Declare, ","))
	}
	if survivor != "" {
		words = append(words, "--survivor "+survivor)
	}
	if needed := s.despites(); needed != "" && s.despite == needed {
		words = append(words, "--despite-backup "+needed)
	}
	return strings.Join(append(words, "--yes"), " ")
}

// survivorState returns a text about what is left of a slot.
func survivorState(v plan.Survivor) string {
	switch {
	case v.Here && !v.Voter:
		return "learner"
	case v.Here && v.Runs:
		return "survivor"
	case v.Here, v.Idle:
		return "is here, does not run"
	case v.Gone:
		return "its disk has lost the data"
	case v.Node != "":
		return "without the voter's data"
	}
	return "no live holder"
}
