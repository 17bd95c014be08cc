package cmd

import (
	"fmt"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/snapshot"
)

// unfinishedFor is how old a backup that was never finished is before `prune` removes it.
const unfinishedFor = 24 * time.Hour

// checkBackups looks at what lies in the store.
func checkBackups(e evidence) []finding {
	if e.BackupsErr != "" {
		return []finding{{Grade: unknown, Means: "The store cannot be read: " + e.BackupsErr, Do: "`holdfast snapshot list` shows whether it can be by now; check snapshot.store and the access to it."}}
	}
	var foreign, broken, left, own int
	var example string
	for _, b := range e.Backups {
		switch {
		case b.Foreign:
			foreign++
		case b.Unfinished && e.Now.Sub(b.Created) > unfinishedFor:
			left++
		case b.Unfinished, b.Legacy:
		case !good(b):
			broken++
			example = fmt.Sprintf("%s: %s", b.Name, problemText(b))
		default:
			own++
		}
	}
	var out []finding
	add := func(v grade, do, means string, args ...any) {
		out = append(out, finding{Grade: v, Means: fmt.Sprintf(means, args...), Do: do})
	}
	if own == 0 {
		add(bad, "`holdfast snapshot save`, and see snapshot.every.", "There is no verified backup of this cluster in the store: what is lost with a majority of the disks is lost for good.")
	}
	if broken > 0 {
		add(warned, "`holdfast snapshot verify NAME` proves one; delete what cannot be used.", "%d backups are damaged or were never verified, such as %s.", broken, example)
	}
	if foreign > 0 {
		add(warned, "Give each cluster its own store or prefix; they are never pruned, and restored only by force.", "%d backups in the store are another cluster's.", foreign)
	}
	if left > 0 {
		add(warned, "`holdfast snapshot prune` removes them.", "%d backups were begun more than a day ago and never finished.", left)
	}
	if len(out) == 0 {
		return []finding{{Grade: well, Means: fmt.Sprintf("The store has %d verified backups of this cluster, and nothing else.", own)}}
	}
	return out
}

func problemText(b snapshot.Backup) string {
	if b.Problem == "" {
		return "not verified"
	}
	return b.Problem
}

// checkSchedule goes by the account of the node that saves.
func checkSchedule(e evidence) []finding {
	var out []finding
	var leading *coordinator.BackupStatus
	for _, n := range e.Status.Nodes {
		b := n.Backup
		if b == nil {
			continue
		}
		if b.Leading {
			leading = b
		}
		if len(b.Spooled) > 0 {
			out = append(out, finding{About: n.Node, Grade: warned, Means: fmt.Sprintf("%d backups lie only on this machine, and are not in the store.", len(b.Spooled)), Do: "See why the store refuses them: `holdfast status`, and the log."})
		}
	}
	if leading == nil {
		return append(out, finding{Grade: unknown, Means: "The schedule runs on the leader, and no node says that it does.", Do: "`holdfast status --why` says why there is no leader, if there is none."})
	}
	switch b := leading; {
	case b.Failures > 0:
		out = append(out, finding{Grade: bad, Means: fmt.Sprintf("Backups fail, %d in a row by now: %s", b.Failures, b.Error), Do: "Cure what the text names; `holdfast snapshot save` tries at once."})
	case b.Overdue:
		out = append(out, finding{Grade: bad, Means: "The newest verified backup is older than the schedule allows.", Do: "`holdfast snapshot save`, which says what is wrong."})
	case b.Due == nil:
		out = append(out, finding{Grade: warned, Means: "No backup is planned.", Do: "Set snapshot.every, unless backups are made in another way."})
	}
	if d := leading.Drill; d != nil && d.Error != "" {
		out = append(out, finding{Grade: bad, Means: fmt.Sprintf("Backup %s could not be restored by a drill: %s", d.Name, d.Error), Do: "`holdfast snapshot save`, and `holdfast snapshot drill` for the new one; do not rely on the old one."})
	} else if d != nil && d.Untried != "" {
		out = append(out, finding{Grade: warned, Means: "The last drill could not be tried: " + d.Untried, Do: "Cure what the text names; `holdfast snapshot drill` tries at once."})
	}
	if len(out) == 0 {
		return []finding{{Grade: well, Means: "Backups are made in time, and no drill has failed."}}
	}
	return out
}
