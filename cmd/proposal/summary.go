package proposal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// summary is what a restore will do. It is shown before the operator confirms.
type summary struct {
	Restore plan.Restore    `json:"restore"`
	Found   snapshot.Backup `json:"backup"`
	Last    int64           `json:"lastRevision"` // of the cluster, as far as known
	Source  string          `json:"lastRevisionFrom"`
	Slots   []slotState     `json:"slots"`

	changed  []string // further slots that may have members, because of an unfinished resize
	confirms bool     // a node answers here, so the operator's yes is the confirmation that the leader needs
}

// text returns the summary for people.
func (s summary) text(cfg config.Config, now time.Time) string {
	p, old := s.Restore, health.Age(now, s.Found.Created)
	var b strings.Builder
	fmt.Fprintf(&b, "restore of cluster %s, from generation %d to %d\n\n", p.Cluster, p.Generation-1, p.Generation)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", key, fmt.Sprintf(format, args...))
	}
	row("backup", "%s, %s old, verified now", p.Backup, old)
	switch {
	case s.Found.Legacy:
		row("", "written by etcd-manager: it has no sidecar, and whose it is is not recorded; revision %d", p.Revision)
	default:
		row("", "revision %d, %s, of slot %s in generation %d", p.Revision, health.Bytes(s.Found.Content.Size),
			s.Found.Slot, s.Found.Generation)
	}
	if s.Found.Foreign {
		row("", "FOREIGN: it is of cluster %s, lineage %s", s.Found.Cluster, s.Found.Lineage)
	}
	switch {
	case s.Source != fromMembers && s.Last <= p.Revision:
		row("lost", "whatever was written in the last %s (%s)", old, s.Source)
	case s.Last > p.Revision && s.Found.Generation > 0 && s.Found.Generation < p.Generation-1:
		row("lost", "the writes of the last %s, those in generation %d among them, up to revision %d (according to %s)",
			old, p.Generation-1, s.Last, s.Source)
	case s.Last > p.Revision:
		row("lost", "%s, up to %d: the writes of the last %s (according to %s)",
			health.Count(s.Last-p.Revision, "revision"), s.Last, old, s.Source)
	case s.Last == p.Revision:
		row("lost", "nothing: the last known revision is the backup's (according to %s)", s.Source)
	default:
		row("lost", "not known: the backup is ahead of the last known revision %d (according to %s)", s.Last, s.Source)
	}
	row("revision", "%d: everything up to it counts as compacted", p.Revision+p.Bump)
	switch {
	case p.Led == nil:
		row("leader", "none is seen: the members leave their generation, which takes %s at least; a leader that lives "+
			"after all objects", coordinator.LeaderWait)
	case s.confirms:
		row("leader", "%s: it consents when you confirm", p.Led)
	default:
		row("leader", "%s: it consents when an operator confirms on a node of the cluster; this command then waits", p.Led)
	}
	for i, slot := range s.Slots {
		key := "slots"
		if i > 0 {
			key = ""
		}
		row(key, "%s: %s", slot.Slot, slot.text())
	}
	deleted := "by nobody (restore.reclaim-after: 0s)"
	if after := cfg.Restore.ReclaimAfter; after > 0 {
		deleted = "when the member has served for " + config.FormatDuration(after)
	}
	row("aside", "the data in use is set aside on each volume; it is deleted %s", deleted)
	return b.String()
}

// stateStarting is the state of a node whose disk has data, but whose member does not run yet.
const stateStarting = "starting"

// enough returns an error if the restore could never be concluded, or declares a running member lost. A member that
// cannot start with its data may be declared lost, even while its process starts again and again. asked says that a
// node answers here; otherwise only the nodes can judge.
func (s summary) enough(lost []string, asked bool) error {
	var slots, here, missing, short []string
	beside := 0 // of the lost slots, those only in changed
	for _, slot := range s.Slots {
		slots = append(slots, slot.Slot)
		named := slices.Contains(lost, slot.Slot)
		switch {
		case named && slot.Why == stateStarting: // a member with damaged data never gets beyond this state
		case slot.Here:
			here = append(here, slot.Slot)
			if slot.Short != "" && !named {
				short = append(short, fmt.Sprintf("slot %s on %s: %s", slot.Slot, slot.Node, slot.Short))
			}
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
	count := len(here) + len(lost) - beside
	switch {
	case !asked, 2*(count-len(short)) > len(slots):
		return nil
	case 2*count > len(slots):
		return fmt.Errorf("too few disks have room for the restore: make room there, or make the volume larger "+
			"(%s); nothing was changed", strings.Join(short, "; "))
	}
	more := ""
	if len(here) > 0 {
		more = " (`holdfast recover` then continues from what is here, which mostly holds more than a backup)"
	}
	return fmt.Errorf("too few disks are here, %d of %d, so the others could continue with the old data: bring them "+
		"back, or, if their disks are gone for good, say --lost %s%s; nothing was changed",
		len(here), len(slots), strings.Join(missing, ","), more)
}
