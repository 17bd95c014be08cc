package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Survivor is what is known of one slot of a cluster that may have lost its majority.
type Survivor struct {
	Slot   string `json:"slot"`
	Node   string `json:"node,omitempty"` // the live holder
	Disk   string `json:"disk,omitempty"`
	Member uint64 `json:"member,omitempty"` // as the members here list it
	Voter  bool   `json:"voter"`
	Here   bool   `json:"here"` // its holder has the member's own data, and has shown where the log ends
	Runs   bool   `json:"runs"` // or has left the generation, and runs no more
	Left   bool   `json:"left,omitempty"`
	Idle   bool   `json:"idle"` // its holder has data of this generation, and no etcd runs there that shows where the log ends
	Gone   bool   `json:"gone"` // its holder has the very disk of the voter, and nothing of its data is left on it
	Best   bool   `json:"best"` // its log is the most advanced of all that run and whose slots are wanted
	// Dropped: the cluster has agreed on slots without this one, so that its member may have been removed by now, and
	// its data be old. Who was removed last may be the one to whom nobody can tell.
	Dropped bool    `json:"dropped,omitempty"`
	Log     *LogEnd `json:"log,omitempty"`
}

// Survey is what there is to recover a cluster from.
type Survey struct {
	Slots    []Survivor `json:"slots"`
	Obstacle string     `json:"obstacle,omitempty"` // why nothing can be recovered, whatever is declared lost

	lists [][]MemberInfo
}

// slots adds to the wanted slots those that any list has a member of.
func (s Survey) slots(wanted []string) []string {
	all := slices.Clone(wanted)
	for _, list := range s.lists {
		for _, m := range list {
			all = append(all, m.Slot)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// after reports whether a log is more advanced than another.
func (l LogEnd) after(m LogEnd) bool { return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index }

// beyond reports whether a survivor's log is more advanced than another's.
func (v Survivor) beyond(w Survivor) bool {
	return v.Log != nil && w.Log != nil && v.Log.after(*w.Log)
}

// gone are the slots whose voters are proven to be gone. That a volume is not found, or that the slot has another disk
// now, proves nothing.
func (s Survey) gone() []string {
	var gone []string
	for _, v := range s.Slots {
		if v.Voter && v.Gone {
			gone = append(gone, v.Slot)
		}
	}
	return gone
}

// majority reports whether more than half of the listed voters are here with their data: they may have a leader at any
// moment.
func (s Survey) majority() bool {
	voters, here := 0, 0
	for _, v := range s.Slots {
		listed := v.Voter && v.Member != 0
		voters, here = voters+boolean(listed), here+boolean(listed && v.Here)
	}
	return here > voters/2
}

// Missing returns the slots whose voters are neither here with their data nor declared lost.
func (s Survey) Missing(lost []string) []string {
	var missing []string
	for _, v := range s.Slots {
		if v.Voter && !v.Here && !slices.Contains(lost, v.Slot) {
			missing = append(missing, v.Slot)
		}
	}
	return missing
}

// Declare returns the slots that would have to be declared lost in all, sorted, and why Choose would refuse even then.
func (s Survey) Declare(lost []string, survivor string) (all []string, refusal string) {
	all = slices.Concat(lost, s.Missing(lost))
	slices.Sort(all)
	_, refusal = s.Choose(all, survivor)
	return slices.Compact(all), refusal
}

// Choose returns the slot to continue from, "" for the most advanced, or why that must not be. Every voter that is not
// declared lost has to be here and to have shown its log, and none may be more advanced: else it might hold what was
// acknowledged, and the survivor not. That the old generation ends is another matter: its voters leave it (see
// deserted).
func (s Survey) Choose(lost []string, survivor string) (chosen Survivor, refusal string) {
	var slots []string
	for _, v := range s.Slots {
		slots = append(slots, v.Slot)
		if v.Best && survivor == "" || v.Slot == survivor {
			chosen = v
		}
	}
	missing := s.Missing(lost)
	switch i := slices.IndexFunc(lost, func(slot string) bool { return !slices.Contains(slots, slot) }); {
	case s.Obstacle != "":
		return chosen, s.Obstacle
	case i >= 0:
		return chosen, fmt.Sprintf("the cluster has no slot %s (it has %s)", lost[i], strings.Join(slots, ", "))
	case survivor != "" && !slices.Contains(slots, survivor):
		return chosen, fmt.Sprintf("the cluster has no slot %s (it has %s)", survivor, strings.Join(slots, ", "))
	case chosen.Slot == "" && slices.ContainsFunc(s.Slots,
		func(v Survivor) bool { return v.Dropped && v.Voter && v.Runs && v.Here }):
		return chosen, "no voter of a slot that the cluster wants runs here with its own data; another may have been removed before, so that its data is old: to continue from it all the same, name it with --survivor"
	case chosen.Slot == "":
		return chosen, "no voter of the cluster runs here with its own data"
	case !chosen.Voter || !chosen.Here || !chosen.Runs || chosen.Log == nil:
		return chosen, fmt.Sprintf("no recovery can continue from slot %s: its voter does not run here with its own data",
			chosen.Slot)
	}
	for _, v := range s.Slots {
		switch {
		case slices.Contains(lost, v.Slot) && v.Idle && !v.Here:
			return chosen, fmt.Sprintf("slot %s is here on %s with its data, and etcd does not run there: start it, by %s if it is drained; to continue without it, stop that node first", v.Slot, v.Node, Command("undrain"))
		case slices.Contains(lost, v.Slot) && v.Here && !v.Left:
			return chosen, fmt.Sprintf("slot %s is here on %s with its data, so it is not lost; to continue without it, stop that node first", v.Slot, v.Node)
		case v.Voter && v.Here && v.beyond(chosen) && !slices.Contains(lost, v.Slot):
			return chosen, fmt.Sprintf("slot %s on %s has a more advanced log (term %d, index %d) than slot %s (term %d, index %d)",
				v.Slot, v.Node, v.Log.Term, v.Log.Index, chosen.Slot, chosen.Log.Term, chosen.Log.Index)
		}
	}
	if len(missing) > 0 {
		return chosen, fmt.Sprintf("%s: bring the disks back, or, if they are gone for good, declare them with --lost %s",
			they(missing, "is not here with its voter's data", "are not here with their voters' data"),
			strings.Join(append(slices.Clone(lost), missing...), ","))
	}
	if idle := s.idle(); idle != "" {
		return chosen, idle
	}
	return chosen, ""
}

// ChooseAlone is Choose where no store arbitrates: then every other voter has to be named lost (R16).
func (s Survey) ChooseAlone(lost []string, survivor string) (chosen Survivor, refusal string) {
	chosen, refusal = s.Choose(lost, survivor)
	for _, v := range s.Slots {
		if refusal == "" && v.Voter && v.Slot != chosen.Slot && !slices.Contains(lost, v.Slot) {
			refusal = fmt.Sprintf("without the backup store nobody arbitrates, so every other voter must be named: slot %s is not in --lost", v.Slot)
		}
	}
	return chosen, refusal
}

// idle says which members are here, do not run, and would give the cluster its majority back.
func (s Survey) idle() string {
	var idle []string
	for _, v := range s.Slots {
		if v.Voter && v.Here && !v.Runs {
			idle = append(idle, fmt.Sprintf("slot %s on %s", v.Slot, v.Node))
		}
	}
	if !s.majority() || idle == nil {
		return ""
	}
	return fmt.Sprintf("a majority is here, and %s does not run: start that, with %s there if it was drained",
		strings.Join(idle, ", "), Command("undrain"))
}
