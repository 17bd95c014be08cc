package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

// Everywhere lists the store and the spool as one. If one cannot be read, the error says which, and the list is that of
// the other. If neither can be read, the list is nil.
func (b *Backups) Everywhere(ctx context.Context) ([]show.Listed, error) {
	place := show.InDirectory
	if b.Config.Snapshot.InBucket() {
		place = show.InBucket
	}
	main, id, err := b.list(ctx)
	if b.spool == nil {
		if err != nil {
			return nil, err
		}
		return merge(place, main, nil, true), nil
	}
	spooled, spoolErr := snapshot.List(ctx, b.spool, id)
	if spoolErr != nil {
		spoolErr = fmt.Errorf("list backups in the spool %s: %w", b.Config.Snapshot.Spool, spoolErr)
	}
	if err != nil && spoolErr != nil {
		return nil, errors.Join(err, spoolErr)
	}
	return merge(place, main, spooled, err == nil), errors.Join(err, spoolErr)
}

// merge joins the lists of the store, shown as place, and of the spool by name, oldest first. mainRead says that the
// store's list is complete: what is missing in it is only in the spool.
func merge(place string, main, spooled []snapshot.Backup, mainRead bool) []show.Listed {
	all := make([]show.Listed, 0, len(main)+len(spooled))
	at := map[string]int{}
	for _, m := range main {
		at[m.Name] = len(all)
		all = append(all, show.Listed{Backup: m, Where: []string{place}})
	}
	for _, s := range spooled {
		i, both := at[s.Name]
		switch {
		case !both:
			if mainRead && s.Good() {
				s.Problem = "only in the spool of this machine, not copied to the store yet"
			}
			all = append(all, show.Listed{Backup: s, Where: []string{show.InSpool}})
		case !all[i].Good() && s.Good(): // the copy in the spool is better
			bad := all[i].Backup
			all[i].Backup = s
			all[i].Proofs, all[i].Failed = bad.Proofs, bad.Failed
			if bad.Failed == nil {
				all[i].Problem = fmt.Sprintf("in the %s copy: %s", place, cmp.Or(bad.Problem, "not verified"))
			}
			all[i].Where = append(all[i].Where, show.InSpool)
		default:
			all[i].Where = append(all[i].Where, show.InSpool)
		}
	}
	slices.SortStableFunc(all, func(a, b show.Listed) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return all
}
