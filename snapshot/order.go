package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ordered reports whether the backup can be ordered without a clock: a verified one of our own, whose sidecar tells its
// generation. Nothing tells that of a legacy backup. An etcd that we do not run has no generations, and after a restore
// its revisions begin again at a lower one.
func (b Backup) Ordered() bool { return b.own() && b.Generation > 0 }

// ordered is Ordered whatever was proven since: that changes nothing of what the backup holds.
func (b Backup) ordered() bool {
	b.Failed = nil
	return b.Ordered()
}

// compare orders two backups of one lineage by what they hold: by generation, then by revision. Two that hold the same
// are ordered by the time at which they were made, and by name.
func (m Meta) compare(n Meta) int {
	return cmp.Or(
		cmp.Compare(m.Generation, n.Generation),
		cmp.Compare(m.Content.Revision, n.Content.Revision),
		byTime(m, n),
	)
}

// byTime orders backups from the oldest to the newest by the time at which they were made, those of one time by name.
func byTime(a, b Meta) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// disagreement is how far the clocks of nodes may be apart. A backup further in the future was made by a wrong one.
const disagreement = time.Hour

// Newest returns the newest of the backups that are good, which no proof speaks against, and not foreign, and whether
// there is one. Of one lineage that is the one with the highest generation, of that the one with the highest revision:
// no clock decides, so that a node whose clock is wrong makes no old backup the newest, nor hides a new one.
//
// Only time is left where nothing else tells: between lineages, where it is not known which is ours, and among backups
// that are not [Backup.Ordered], which stand behind those that are. There one that is later than now counts only if
// there is no other. A backup that does not tell its lineage is of the only one there is.
func Newest(backups []Backup, now time.Time) (Backup, bool) {
	return newest(slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return b.Failed != nil }), now)
}

// Skipped returns the backups that a proof speaks against and that would be newer than what [Newest] returns, the
// newest first.
func Skipped(backups []Backup, now time.Time) (skipped []Backup) {
	backups = slices.Clone(backups)
	for {
		b, ok := newest(backups, now)
		if !ok || b.Failed == nil {
			return skipped
		}
		skipped = append(skipped, b)
		backups = slices.DeleteFunc(backups, func(a Backup) bool { return a.Name == b.Name })
	}
}

// Untold returns an error if a finished backup that may be ours does not tell what it holds: its sidecar is damaged, cut
// short or gone. It may then hold more than all others, and nobody may choose less by taking it for none.
func Untold(backups []Backup) error {
	for _, b := range slices.Backward(backups) {
		if b.Problem != "" && !b.told() && !b.Unfinished && !b.Foreign && !b.Legacy {
			return fmt.Errorf("backup %s does not tell what it holds: %s", b.Name, b.Problem)
		}
	}
	return nil
}

// told says that the sidecar could be read.
func (b Backup) told() bool { return !b.Verified.IsZero() }

// AsSaved returns the backups as their sidecars tell of them, whatever has become of the data: so much was there.
func AsSaved(backups []Backup) []Backup {
	backups = slices.Clone(backups)
	for i := range backups {
		if backups[i].told() {
			backups[i].Problem = ""
		}
	}
	return backups
}

// Doubt returns an error if a backup with a Problem may hold more than what [Newest] returns: it does not tell what it
// holds, or its data is gone. The store may have given or shown less than it has.
func Doubt(backups []Backup, now time.Time) error {
	if err := Untold(backups); err != nil {
		return err
	}
	if b, _ := Newest(AsSaved(backups), now); b.Name != "" {
		i := slices.IndexFunc(backups, func(is Backup) bool { return is.Name == b.Name })
		if was := backups[i].Problem; was != "" {
			return fmt.Errorf("backup %s holds more than any other, and cannot be restored: %s", b.Name, was)
		}
	}
	return nil
}

// newest is Newest whatever was proven.
func newest(backups []Backup, now time.Time) (Backup, bool) {
	backups = slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return b.Foreign || b.Problem != "" })
	only := onlyLineage(backups)
	leaders := map[string]Backup{} // the newest of each lineage
	for _, b := range backups {
		lineage := cmp.Or(b.Lineage, only)
		if !b.ordered() {
			lineage = "\x00" + b.Name // comparable with nothing but by time
		}
		if best, ok := leaders[lineage]; !ok || b.compare(best.Meta) > 0 {
			leaders[lineage] = b
		}
	}
	horizon := now.Add(disagreement)
	var newest Backup
	found := false
	for _, b := range leaders {
		if !found || rank(b, newest, horizon) > 0 {
			newest, found = b, true
		}
	}
	return newest, found
}

// onlyLineage returns the lineage of those that tell one, "" if they tell several.
func onlyLineage(backups []Backup) string {
	only := ""
	for _, b := range backups {
		switch {
		case !b.ordered() || b.Lineage == "" || b.Lineage == only:
		case only != "":
			return ""
		default:
			only = b.Lineage
		}
	}
	return only
}

// rank orders two backups of which neither is known to follow the other.
func rank(a, b Backup, horizon time.Time) int {
	past := func(b Backup) bool { return !b.Created.After(horizon) }
	return cmp.Or(
		truth(a.ordered(), b.ordered()),
		truth(past(a), past(b)),
		a.Created.Compare(b.Created),
		truth(!a.Legacy, !b.Legacy),
		strings.Compare(a.Name, b.Name),
	)
}

// truth orders false before true.
func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// holdings is what a store holds of good backups of our own.
type holdings struct {
	// made is the backup that was made last, until now: what the schedule counts from. One from the future, made by a
	// node whose clock is ahead, must not hold up the schedule of those whose clock is right.
	made Meta
	// newest is the newest by generation and revision, whatever its time.
	newest Meta
	// count is how many there are.
	count int
	// skipped are the bad ones that would be newer than newest, the newest first, and failed are all bad ones of our
	// own: those that a proof stands against.
	skipped, failed []Backup
}

// hold returns what the store holds at the time now, with empty names if there is nothing. A legacy backup was not made
// by the schedule and does not count.
func hold(ctx context.Context, store Store, id Identity, now time.Time) (holdings, error) {
	backups, err := List(ctx, store, id)
	if err != nil {
		return holdings{}, err
	}
	return holdingsOf(backups, now), nil
}

// holdingsOf is hold of a listing.
func holdingsOf(backups []Backup, now time.Time) (h holdings) {
	backups = slices.DeleteFunc(slices.Clone(backups),
		func(b Backup) bool { return b.Foreign || b.Legacy || b.Problem != "" || b.Verified.IsZero() })
	slices.SortStableFunc(backups, func(a, b Backup) int { return byTime(a.Meta, b.Meta) })
	for _, b := range backups {
		if b.Failed != nil {
			h.failed = append(h.failed, b)
			continue
		}
		h.count++
		if !b.Created.After(now) {
			h.made = b.Meta
		}
	}
	slices.Reverse(h.failed)
	newest, _ := Newest(backups, now)
	h.newest, h.skipped = newest.Meta, Skipped(backups, now)
	return h
}

// saved adds a backup that was just made.
func (h holdings) saved(m Meta) holdings {
	if h.newest.Name == "" || m.compare(h.newest) > 0 {
		h.newest = m
	}
	h.skipped = slices.DeleteFunc(slices.Clone(h.skipped), func(b Backup) bool { return b.compare(m) < 0 })
	h.made = m
	h.count++
	return h
}
