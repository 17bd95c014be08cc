package generations

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/snapshot"
)

// numbered is an object whose name contains a generation and, unless it is a record or a proof, an attempt.
type numbered struct {
	snapshot.Object
	generation uint64
	attempt    int
}

// of returns the object of another kind for the same attempt; ok reports whether there is one.
func (n numbered) of(kind []numbered) (other numbered, ok bool) {
	i := slices.IndexFunc(kind, func(o numbered) bool { return o.generation == n.generation && o.attempt == n.attempt })
	if i < 0 {
		return numbered{}, false
	}
	return kind[i], true
}

// listing has the cluster's objects in the store, each kind in the order of its numbers.
type listing struct {
	records, restores, outcomes, proofs []numbered
	here                                []snapshot.Object
	beacon                              snapshot.Object
	returned                            []snapshot.Object
	beside                              bool                  // a cluster was founded beside one of etcd-manager's
	asked                               time.Time             // by our clock
	begun                               map[uint64]*beginning // by generation, filled while reading
	newest                              time.Time             // the store's time of the newest object
}

// maxHere bounds how many nonces are read, the newest first. Each costs a request, and processes leave theirs behind
// when they end. A cluster and its commands have far fewer.
const maxHere = 1000

var objectName = regexp.MustCompile(`^(record|restore|outcome|proof)-(\d{6,19})(?:-(\d{2,9}))?\.json$`)

func (r *objects) list(ctx context.Context) (l listing, err error) {
	l.asked, l.begun = time.Now(), map[uint64]*beginning{}
	objects, err := r.Store.List(ctx, r.prefix())
	if err != nil {
		return l, fmt.Errorf("list the cluster's records: %w", err)
	}
	listed := make(map[snapshot.Version]bool, len(objects))
	for _, o := range objects {
		listed[o.Version()] = true
		if o.Modified.After(l.newest) {
			l.newest = o.Modified
		}
		switch {
		case strings.HasPrefix(o.Name, r.prefix()+hereDir):
			l.here = append(l.here, o)
		case o.Name == r.BeaconName():
			l.beacon = o
		case strings.HasPrefix(o.Name, r.prefix()+returnedPrefix):
			l.returned = append(l.returned, o)
		}
		l.beside = l.beside || o.Name == r.besideName()
		m := objectName.FindStringSubmatch(strings.TrimPrefix(o.Name, r.prefix()))
		if m == nil || (m[1] == "record" || m[1] == "proof") != (m[3] == "") {
			continue
		}
		n := numbered{Object: o}
		n.generation, _ = strconv.ParseUint(m[2], 10, 64) // 19 digits fit
		n.attempt, _ = strconv.Atoi(m[3])
		kind := map[string]*[]numbered{"record": &l.records, "restore": &l.restores, "outcome": &l.outcomes,
			"proof": &l.proofs}[m[1]]
		*kind = append(*kind, n)
	}
	for _, kind := range [][]numbered{l.records, l.restores, l.outcomes, l.proofs} {
		slices.SortFunc(kind, func(a, b numbered) int {
			return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.attempt, b.attempt))
		})
	}
	r.cache.only(listed)
	if len(l.here) > maxHere {
		slices.SortFunc(l.here, func(a, b snapshot.Object) int { return b.Modified.Compare(a.Modified) })
		l.here = l.here[:maxHere]
	}
	return l, nil
}
