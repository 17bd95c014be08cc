package snapshot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A drill from the future, of a node whose clock was ahead, gives way to any other: otherwise it would hide for as long
// that drills fail, or that there are none.
func TestDrillFromTheFuture(t *testing.T) {
	now := time.Now().UTC()
	before, late := Drill{Name: "before", Time: now.Add(-time.Hour)}, Drill{Name: "late", Time: now}
	future := Drill{Name: "future", Time: now.Add(30 * 24 * time.Hour)}
	for name, tc := range map[string]struct{ told, stored, want Drill }{
		"another node's is later":         {before, late, late},
		"the listing is old":              {late, before, late},
		"its clock is ahead":              {before, future, before},
		"ours was, and nobody's later":    {future, future, Drill{}},
		"ours was, and there is one":      {future, before, before},
		"nothing was known but this":      {Drill{}, future, Drill{}},
		"nothing was known, there is one": {Drill{}, late, late},
	} {
		d := &drills{store: NewDir(t.TempDir()), cluster: "main", known: true,
			series: newSeries(prometheus.NewRegistry(), func() float64 { return 0 }).drill}
		d.told.Last = tc.told
		text, err := json.Marshal(tc.stored)
		if err == nil {
			err = d.store.Put(t.Context(), drillObject("main"), strings.NewReader(string(text)))
		}
		if err == nil {
			err = d.read(t.Context(), Identity{Cluster: "main"})
		}
		if got := d.status().Last; err != nil || got.Name != tc.want.Name {
			t.Errorf("%s: got %q, %v; want %q", name, got.Name, err, tc.want.Name)
		}
	}
}
