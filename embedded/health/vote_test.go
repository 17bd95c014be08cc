package health

import (
	"testing"

	"holdfast/embedded/plan"
)

// Data may be given up only if a majority of all voters has other data, and for one member only.
func TestOdd(t *testing.T) {
	tell := func(f *Facts, sums ...string) {
		for i, sum := range sums {
			if sum != "" {
				f.node(i).Etcd.Hashes = []plan.Hash{{Revision: 20, Compacted: 10, Sum: sum}}
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Facts)
		odd    string // the node that may be given up
	}{
		{"nobody tells", func(*Facts) {}, ""},
		{"all agree", func(f *Facts) { tell(f, "1", "1", "1") }, ""},
		{"one differs", func(f *Facts) { tell(f, "1", "2", "1") }, "n2"},
		{"the leader differs", func(f *Facts) { tell(f, "2", "1", "1") }, "n1"},
		{"all differ", func(f *Facts) { tell(f, "1", "2", "3") }, ""},
		{"two tell, and differ", func(f *Facts) { tell(f, "1", "2") }, ""},
		{"only one tells", func(f *Facts) { tell(f, "1") }, ""},
		{"two tell, and agree", func(f *Facts) { tell(f, "1", "1") }, ""},
		{"a node that does not answer has no vote", func(f *Facts) { tell(f, "1", "2", "1"); f.lose(2) }, ""},
		{"nor has a learner", func(f *Facts) { tell(f, "1", "2", "1"); f.node(2).Etcd.Learner = true }, ""},
		{"another compaction before it is another hash", func(f *Facts) { tell(f, "1", "2", "1"); f.node(1).Etcd.Hashes[0].Compacted = 5 }, ""},
		{"what was is over", func(f *Facts) {
			tell(f, "1", "1", "1")
			for i, sum := range []string{"1", "2", "1"} {
				f.node(i).Etcd.Hashes = append(f.node(i).Etcd.Hashes, plan.Hash{Revision: 10, Compacted: 5, Sum: sum})
			}
		}, ""},
		{"no record", func(f *Facts) { tell(f, "1", "2", "1"); f.Status.Record = nil }, ""},
	} {
		f := sound()
		f.Status.Record = f.node(0).Record
		c.change(f)
		v := f.Status.Vote()
		for _, n := range f.Status.Nodes {
			if err := v.Odd(n.Node); (err == nil) != (n.Node == c.odd) {
				t.Errorf("%s: of %s: %v (%+v)", c.name, n.Node, err, v)
			}
		}
	}
}
