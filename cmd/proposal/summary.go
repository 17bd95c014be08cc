package proposal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// summary is what a restore will do, before it does it.
type summary struct {
	Restore plan.Restore    `json:"restore"`
	Found   snapshot.Backup `json:"backup"`
	Last    int64           `json:"lastRevision"` // of the cluster, as far as known
	Source  string          `json:"lastRevisionFrom"`
	Slots   []slotState     `json:"slots"`

	changed  []string // slots that may be members' beside those
	confirms bool     // a node is asked, so the operator's yes here is what the leader needs
}

func reclaimText(after time.Duration) string {
	if after == 0 {
		return "by nobody (restore.reclaim-after: 0s)"
	}
	return fmt.Sprintf("when the member has served for %s", config.FormatDuration(after))
}

// stateStarting is the state of a node whose disk has data and whose member does not run.
const stateStarting = "starting"

// enough refuses a restore that could never be concluded, or that declares lost what is here and runs: data that no
// member can start with may be declared lost, while its process comes and goes. Without a node to ask
// (asked is false) only the nodes can judge it.
func (s summary) enough(lost []string, asked bool) error {
	var slots, here, missing []string
	beside := 0 // of the lost
	for _, slot := range s.Slots {
		slots = append(slots, slot.Slot)
		named := slices.Contains(lost, slot.Slot)
		switch {
		case named && slot.Why == stateStarting: // damaged data never gets further, whatever the disk
		case slot.Here:
			here = append(here, slot.Slot)
		case !named:
			missing = append(missing, slot.Slot)
		}
	}
	for _, slot := range lost {
		switch {
		case !slices.Contains(slots, slot) && slices.Contains(s.changed, slot):
			beside++
		case !slices.Contains(slots, slot):
			return fmt.Errorf("--lost: the cluster has no slot %s (it has %s); nothing was changed", slot,
				strings.Join(slots, ", "))
		case slices.Contains(here, slot):
			return fmt.Errorf("--lost: the disk of slot %s is here, and its member runs, so it is not lost; nothing "+
				"was changed", slot)
		}
	}
	if !asked || 2*(len(here)+len(lost)-beside) > len(slots) {
		return nil
	}
	more := ""
	if len(here) > 0 {
		more = " (`holdfast recover` then continues from what is here, which mostly holds more than a backup)"
	}
	return fmt.Errorf("too few disks are here, %d of %d, so the others could continue with the old data: bring them "+
		"back, or, if their disks are gone for good, say --lost %s%s; nothing was changed",
		len(here), len(slots), strings.Join(missing, ","), more)
}
