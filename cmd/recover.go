package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

func newRecoverCommand() *cobra.Command {
	var f proposalFlags
	var abort, alone bool
	var survivor, despite string
	c := &cobra.Command{
		Use:   "recover [--lost SLOTS] [--yes] | --abort",
		Short: "Go on without a majority that is lost for good, as a new generation of the cluster",
		Long: "Go on without a majority of the members that is lost for good, as a new generation of the cluster. It is run on a\n" +
			"machine whose node runs. Without --yes it only shows what is left, and what would be done.\n\n" +
			"The survivor with the most advanced log copies its data, applies its whole log to the copy, and founds the new\n" +
			"generation with that, alone; everybody else joins it, and what their disks held is set aside. Nothing that the\n" +
			"survivor's log holds is lost, acknowledged or not. Until the point of no return --abort or Ctrl-C ends it, and so\n" +
			"does a leader: a cluster that was only slow continues as it was. Leases, users and versions stay; the revision is\n" +
			"raised by restore.revision-bump, so that watchers start over.\n\n" +
			"--lost names every slot whose voter is not here. A member that was named, is alive and serves without the survivor\n" +
			"stops when it sees the new generation, and keeps its data: `holdfast rejoin` on its node says what becomes of that.\n\n" +
			"A survivor that the newest backup goes beyond is refused, by generation and then by revision: `holdfast restore`\n" +
			"keeps more then. To continue from it all the same, name both: --survivor SLOT --despite-backup NAME. Where the\n" +
			"backups cannot be listed, NAME is \"unknown\".\n\n" +
			"Exit code: 0 if the cluster serves again, or without --yes if it could be recovered.",
		Example: "  holdfast recover\n  holdfast recover --lost b,c --yes\n  holdfast recover --abort",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case abort && (len(f.Lost) > 0 || survivor != "" || despite != ""):
				return errors.New("say --abort alone, or --lost, --survivor and --despite-backup")
			case despite != "" && survivor == "":
				return errors.New("--despite-backup: say with --survivor which slot to continue from in place of that backup")
			}
			o, err := f.operator(c)
			if err != nil {
				return err
			}
			switch {
			case abort:
				return o.Abort(c.Context())
			case alone:
				return o.Alone(c.Context())
			}
			return o.Recover(c.Context(), survivor, despite)
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	f.add(c.Flags())
	c.Flags().BoolVar(&f.Yes, "yes", false, "do it")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would be done, whatever else is said")
	c.Flags().BoolVar(&abort, "abort", false, "abort the recovery that is under way")
	c.Flags().StringSliceVar(&f.Lost, "lost", nil, "`slots` whose voters are gone for good")
	c.Flags().BoolVar(&alone, "without-store", false,
		"the store is lost as well: continue from this node, with every other voter named in --lost")
	c.Flags().StringVar(&survivor, "survivor", "",
		"`slot` to continue from: of several that are equally advanced (default: the first of them), or one that the cluster had given up")
	c.Flags().StringVar(&despite, "despite-backup", "",
		"continue from --survivor although this newest backup holds more: its `NAME`, or unknown where the backups cannot be listed")
	return c
}

// recovery is what there is to recover a cluster from, and what would be done.
type recovery struct {
	Record *plan.Record `json:"record"` // the generation that would end
	plan.Survey
	Chosen  plan.Survivor `json:"survivor"`
	Missing []string      `json:"missing,omitempty"` // have to be declared lost, beside those that are
	Refusal string        `json:"refusal,omitempty"` // why it cannot be done so
	Declare []string      `json:"declare,omitempty"` // the slots to declare lost in all, if it can be done at all
	Able    bool          `json:"able"`              // it can be done with these declared lost

	Revisions map[string]int64 `json:"revisions,omitempty"` // last known, by slot
	Backup    *snapshot.Backup `json:"newestBackup,omitempty"`
	NoBackup  string           `json:"noBackup,omitempty"` // why none is known
	More      string           `json:"holdsMore,omitempty"`

	despite string // the backup that the operator gives up
}

// survey answers with what a node knows. lost are slots with commas between.
func survey(o plan.Observation, lost, survivor string) recovery {
	r := recovery{Survey: o.Survey()}
	declared := strings.FieldsFunc(lost, func(c rune) bool { return c == ',' })
	r.Chosen, r.Refusal = r.Choose(declared, survivor)
	r.Missing = r.Survey.Missing(declared)
	if all, incurable := r.Survey.Declare(declared, survivor); incurable != "" {
		r.Refusal = incurable
	} else {
		r.Declare, r.Able = all, true
	}
	for _, p := range append(o.Peers, plan.Peer{Facts: &plan.Facts{Record: o.Disk.Ledger.Record}}) {
		if f := p.Facts; f != nil && f.Record != nil && (r.Record == nil || f.Record.Generation > r.Record.Generation) {
			r.Record = f.Record
		}
	}
	return r
}

// showRecovery shows what is left, and what will happen or would.
func (r *restoration) showRecovery(s recovery, survivor string, act bool) error {
	if r.b.json() {
		if act {
			return nil
		}
		return writeIndented(r.c.OutOrStdout(), s)
	}
	t := newTable("SLOT", "NODE", "STATE", "TERM", "INDEX", "REVISION", "DISK", "")
	for _, v := range s.Slots {
		row := []any{v.Slot, orDash(v.Node), survivorState(v), "-", "-", "-", orDash(v.Disk), ""}
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
	w := r.c.OutOrStdout()
	fmt.Fprintf(w, "recovery of cluster %s, from generation %d to %d\n\n%s\n\n", s.Record.Cluster, s.Record.Generation, s.Record.Generation+1, t.Render())
	fmt.Fprintf(w, "newest backup: %s\n", s.backup(time.Now()))
	if !s.Able || s.poorer(survivor) != nil {
		return nil
	}
	fmt.Fprintf(w, "slot %s goes on with all that its log holds; the others join it, and what their disks hold is set aside\n", s.Chosen.Slot)
	if len(s.Declare) > 0 {
		fmt.Fprintf(w, "%s must be declared lost: if one of them is alive after all, what it acknowledges alone is not in the cluster\n", strings.Join(s.Declare, ", "))
	}
	if !act {
		fmt.Fprintf(w, "\nnothing was changed; to do it: %s\n", s.command(survivor))
	}
	return nil
}

// command is what does it.
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

// survivorState says what is left of a slot.
func survivorState(v plan.Survivor) string {
	switch {
	case v.Here && !v.Voter:
		return "learner"
	case v.Here && v.Runs:
		return "survivor"
	case v.Here, v.Idle:
		return "has its data, does not run"
	case v.Gone:
		return "its disk has lost the data"
	case v.Node != "":
		return "without the voter's data"
	}
	return "no live holder"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// serves reports whether a member of the new generation leads it: a recovery is done then, whoever has still to join.
func (f *follower) serves() bool {
	return slices.ContainsFunc(f.cluster.Nodes, func(n health.NodeStatus) bool {
		return n.Reached && n.State == "leader" && n.Record != nil && n.Record.ID == f.record.ID
	})
}

// recovered says how a recovery ended.
func (f *follower) recovered(verdict health.Verdict) error {
	w := f.c.OutOrStdout()
	fmt.Fprintf(w, "recovered from slot %s: the cluster serves as %s, at revision %d or later\n", f.p.Survivor, f.record.Token(), f.p.Revision+f.p.Bump)
	if verdict != health.Healthy {
		fmt.Fprintf(w, "it is not whole yet: %s; bring nodes for these slots, whose disks may be blank\n", strings.Join(f.cluster.Reasons(), "; "))
	}
	return nil
}

// preparing says what a proposal begins with.
func preparing(p plan.Restore) string {
	if p.Survivor != "" {
		return "slot " + p.Survivor + " prepares a copy of its data"
	}
	if p.Led == nil {
		return "the members prepare"
	}
	return "the members prepare, and the cluster serves on"
}
