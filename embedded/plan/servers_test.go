package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// serves makes a node that runs a member of the record, and knows the member list.
func serves(node, slot string, id uint64, record *Record, list ...MemberInfo) Peer {
	return Peer{Node: node, Live: true, Facts: &Facts{Version: 1, Slot: slot, Epoch: 1, Disk: "disk-" + slot, Phase: PhaseData, Record: record,
		Member: id, Running: true, Members: list, Clients: []string{"http://" + node}}}
}

func TestServing(t *testing.T) {
	record := &Record{ID: "r", Generation: 1, Charter: Charter{Cluster: "k", Generation: 1}}
	list := []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}
	leads := func(p Peer) Peer {
		f := *p.Facts
		f.Leader = true
		p.Facts = &f
		return p
	}
	lost := func(p Peer) Peer { p.Live = false; return p }
	idle := func(p Peer) Peer {
		f := *p.Facts
		f.Running, f.Members, f.Epoch = false, nil, 2
		p.Facts = &f
		return p
	}
	n1, n2, n3 := leads(serves("n1", "a", 1, record, list...)), serves("n2", "b", 2, record, list...), serves("n3", "c", 3, record, list...)
	mute := Peer{Node: "mute", Live: true}
	show := func(s Servers) string {
		var all []string
		for _, r := range s.Running {
			text := r.Slot + "=" + r.Node
			if r.Leader {
				text += "*"
			}
			if !r.Live {
				text += "?"
			}
			all = append(all, text)
		}
		return fmt.Sprintf("%t %v %s", s.Known, s.Voters, strings.Join(all, " "))
	}
	before := Serving([]Peer{n1, n2, n3}, Servers{})
	learner := []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 9, Slot: "c", Learner: true}}
	child := &Record{ID: "s", Generation: 2, Line: []string{"r"}, Charter: Charter{Cluster: "k", Generation: 2}}
	stranger := &Record{ID: "x", Generation: 1, Charter: Charter{Cluster: "k", Generation: 1}}
	for _, c := range []struct {
		name   string
		peers  []Peer
		before Servers
		want   string
	}{
		{"nobody", nil, Servers{}, "false [] "},
		{"all", []Peer{mute, n1, n2, n3}, Servers{}, "true [a b c] a=n1* b=n2 c=n3"},
		{"no leader yet", []Peer{n2, n3}, Servers{}, "false [] "},
		{"no leader any more", []Peer{lost(n1), n2, n3}, before, "false [a b c] a=n1? b=n2 c=n3"},
		{"two that say they lead", []Peer{n1, leads(serves("n2", "b", 2, record, list[:2]...)), n3}, before, "false [a b c] a=n1* b=n2* c=n3"},
		{"a standby has taken the volume, and runs it", []Peer{n1, lost(n2), n3, serves("n4", "b", 2, record, list...)}, before, "true [a b c] a=n1* b=n4 c=n3"},
		{"it has taken it, and does not run it yet", []Peer{n1, lost(n2), n3, idle(serves("n4", "b", 2, record))}, before, "true [a b c] a=n1* c=n3"},
		{"a copy of a disk that runs", []Peer{n1, n2, n3, idle(serves("n4", "b", 2, record))}, before, "true [a b c] a=n1* b=n2 c=n3"},
		{"a learner", []Peer{leads(serves("n1", "a", 1, record, learner...)), n2, serves("n3", "c", 9, record, learner...)}, before, "true [a b] a=n1* b=n2"},
		{"a removed member that does not know", []Peer{leads(serves("n1", "a", 1, record, learner...)), n2, n3}, before, "true [a b] a=n1* b=n2"},
		{"another cluster of that name", []Peer{n1, n2, n3, leads(serves("x", "a", 7, stranger, MemberInfo{ID: 7, Slot: "a"}))}, before, "false [a b c] a=n1* b=n2 c=n3"},
		{"a later generation without a leader", []Peer{n1, n2, serves("n3", "c", 8, child, MemberInfo{ID: 8, Slot: "c"})}, before, "false [a b c] a=n1* b=n2"},
		{"a later generation", []Peer{n1, n2, leads(serves("n3", "c", 8, child, MemberInfo{ID: 8, Slot: "c"}))}, before, "true [c] c=n3*"},
	} {
		if got := show(Serving(c.peers, c.before)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		slices.Reverse(c.peers)
		if got := show(Serving(c.peers, c.before)); got != c.want {
			t.Errorf("%s, the other way round: got %s, want %s", c.name, got, c.want)
		}
	}
}
