package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ordered reports whether the backup can be ordered without a clock: it is verified and this cluster's, and its sidecar
// has a generation. A legacy backup has none. Nor has a backup of an etcd that holdfast does not run, whose revisions
// begin again at a lower one after a restore.
func (b Backup) Ordered() bool { return b.own() && b.Generation > 0 }

// ordered is Ordered without regard to later proofs, which do not change what the backup holds.
func (b Backup) ordered() bool {
	b.Failed = nil
	return b.Ordered()
}

// compare orders two backups of one lineage by content: by generation, then by revision. If both are equal, it orders
// them by the time at which they were made, then by name.
func (m Meta) compare(n Meta) int {
	return cmp.Or(
		cmp.Compare(m.Generation, n.Generation),
		cmp.Compare(m.Content.Revision, n.Content.Revision),
		byTime(m, n),
	)
}

// order orders two good backups of one lineage as [Newest] does.
func (b Backup) order(c Backup) int {
	if !b.Ordered() && !c.Ordered() {
		return byTime(b.Meta, c.Meta)
	}
	return b.compare(c.Meta) // without a generation before all others
}

// beyond reports whether a backup holds more than another one of its lineage.
func (m Meta) beyond(n Meta) bool {
	return cmp.Or(cmp.Compare(m.Generation, n.Generation), cmp.Compare(m.Content.Revision, n.Content.Revision)) > 0
}

// byTime orders backups by the time at which they were made, oldest first, then by name.
func byTime(a, b Meta) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// disagreement is how far apart the clocks of nodes may be. A backup further in the future was made with a wrong clock.
const disagreement = time.Hour

// Newest returns the newest backup that is good, has no proof against it and is not foreign, and whether there is one.
// Within a lineage it is the one with the highest generation, then with the highest revision. No clock decides: a node
// with a wrong clock neither makes an old backup the newest nor hides a new one.
//
// Time decides only where nothing else can: between lineages, if it is not known which is this cluster's, and among
// backups that are not [Backup.Ordered], which come after those that are. There, a backup from the future counts only
// if there is no other. A backup without a lineage belongs to the only lineage there is.
func Newest(backups []Backup, now time.Time) (Backup, bool) {
	return newest(slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return b.Failed != nil }), now)
}

// Skipped returns the backups with a proof against them that would be newer than the result of [Newest], the newest
// first.
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

// Untold returns an error if the sidecar of a finished backup that may be ours is damaged, cut short or gone. Such a
// backup may hold more than all others, so nothing may be chosen automatically as if it did not exist.
func Untold(backups []Backup) error {
	for _, b := range slices.Backward(backups) {
		if b.Problem != "" && !b.told() && !b.Unfinished && !b.Foreign && !b.Legacy {
			return fmt.Errorf("backup %s does not tell what it holds: %s", b.Name, b.Problem)
		}
	}
	return nil
}

// told reports whether the sidecar could be read.
func (b Backup) told() bool { return !b.Verified.IsZero() }

// AsSaved returns the backups as their sidecars describe them, whether or not the data is still good.
func AsSaved(backups []Backup) []Backup {
	backups = slices.Clone(backups)
	for i := range backups {
		if backups[i].told() {
			backups[i].Problem = ""
		}
	}
	return backups
}

// Most returns the backup that holds most, by generation and revision, of those that can be ordered. It shows what the
// cluster once held, whether or not the backup is still good.
func Most(backups []Backup, now time.Time) (Backup, bool) {
	backups = AsSaved(backups)
	for i := range backups {
		backups[i].Failed = nil
	}
	if most, ok := Newest(backups, now); ok && most.Ordered() {
		return most, true
	}
	return Backup{}, false
}

// Doubt returns an error if a backup with a Problem may hold more than the one that [Newest] returns: its sidecar is
// unreadable, or its data is missing. The store may have returned or listed less than it has.
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

// newest is Newest without regard to proofs.
func newest(backups []Backup, now time.Time) (Backup, bool) {
	backups = slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return b.Foreign || b.Problem != "" })
	only := onlyLineage(backups)
	leaders := map[string]Backup{} // the newest of each lineage
	for _, b := range backups {
		lineage := cmp.Or(b.Lineage, only)
		if !b.ordered() {
			lineage = "\x00" + b.Name // only comparable by time
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

// onlyLineage returns the lineage of those that have one, or "" if they have several.
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

// rank orders two backups if it is not known which follows the other.
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

// Holdings are what a store has of the good backups of a cluster.
type Holdings struct {
	// Newest is the newest good backup by generation and revision, whatever its time. Its Name is empty if there is none.
	Newest Meta
	// Count is the number of good backups.
	Count int
	// Failed are the backups that a verification or a drill has found to be bad, the last one made first. Skipped are
	// those of them that would be newer than Newest.
	Failed  []Backup
	Skipped []Backup
	// Doubt is the error of [Doubt], nil if there is none.
	Doubt error
	// most is the backup that holds most of those that can be ordered, whether or not it is still good.
	most Meta
	// made is the last backup made so far, from which the schedule counts. A backup from the future, of a node whose clock
	// is ahead, must not delay the schedule of nodes whose clocks are right. One of an earlier generation does not count
	// either: it may hold what a restore has discarded, and holds nothing that was written since.
	made Meta
}

// holdTime limits hold: a store that answers each request, but slowly, would otherwise keep backups from the spool.
const holdTime = 5 * time.Minute

// hold returns the holdings of a store at the time now, with empty names if there are none. A legacy backup does not
// count, because the schedule did not make it.
func hold(ctx context.Context, store Store, id Identity, now time.Time) (Holdings, error) {
	ctx, cancel := Within(ctx, holdTime)
	defer cancel()
	backups, err := List(ctx, store, id)
	if err != nil {
		return Holdings{}, err
	}
	return holdingsOf(backups, id, now), nil
}

// holdingsOf is hold for a listing.
func holdingsOf(backups []Backup, id Identity, now time.Time) (h Holdings) {
	h.Doubt = Doubt(backups, now)
	most, _ := Most(backups, now)
	h.most = most.Meta
	backups = slices.DeleteFunc(slices.Clone(backups),
		func(b Backup) bool { return b.Foreign || b.Legacy || b.Problem != "" || b.Verified.IsZero() })
	slices.SortStableFunc(backups, func(a, b Backup) int { return byTime(a.Meta, b.Meta) })
	for _, b := range backups {
		if b.Failed != nil {
			h.Failed = append(h.Failed, b)
			continue
		}
		h.Count++
		if !b.Created.After(now) && b.Generation >= id.Generation {
			h.made = b.Meta
		}
	}
	slices.Reverse(h.Failed)
	newest, _ := Newest(backups, now)
	h.Newest, h.Skipped = newest.Meta, Skipped(backups, now)
	return h
}

// saved adds a backup that was just made.
func (h Holdings) saved(m Meta) Holdings {
	if h.Newest.Name == "" || m.compare(h.Newest) > 0 {
		h.Newest = m
	}
	if m.Generation > 0 && !h.most.beyond(m) {
		h.most = m
	}
	h.Skipped = slices.DeleteFunc(slices.Clone(h.Skipped), func(b Backup) bool { return b.compare(m) < 0 })
	h.made = m
	h.Count++
	return h
}
