package pki

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	life = 90 * 24 * time.Hour
	ages = 10 * 365 * 24 * time.Hour
)

// by is a leaf that at epoch has lived the part age of its life.
func by(issuer string, age float64) *held {
	from := epoch.Add(-time.Duration(age * float64(life)))
	return &held{From: from, Until: from.Add(life), Issuer: issuer}
}

func signingBy(names ...string) []signing {
	var all []signing
	for _, n := range names {
		all = append(all, signing{n, epoch.Add(ages)})
	}
	return all
}

func TestDecidePeer(t *testing.T) {
	all := func(trusts ...string) []Stance { return []Stance{{Trusts: trusts}, {Trusts: trusts}} }
	for _, c := range []struct {
		name     string
		leaf     *held
		peers    []signing
		stances  []Stance
		complete bool
		want     string
	}{
		{"the first one", nil, signingBy("1"), nil, false, "1"},
		{"the first one, and the others trust only the old", nil, signingBy("2", "1"), all("1"), true, "1"},
		{"the first one, and we cannot sign by what they trust", nil, signingBy("2"), all("1"), true, "2"},
		{"young", by("1", 0.5), signingBy("1"), all("1"), true, ""},
		{"two thirds", by("1", 0.67), signingBy("1"), all("1"), true, "1"},
		{"expired", by("1", 1), signingBy("1"), all("1"), true, "1"},
		{"from the future", by("1", -0.01), signingBy("1"), all("1"), true, "1"},
		{"no key", by("1", 0.99), nil, all("1"), true, ""},
		{"all trust the new", by("1", 0.1), signingBy("2", "1"), all("1", "2"), true, "2"},
		{"somebody is missing", by("1", 0.1), signingBy("2", "1"), all("1", "2"), false, ""},
		{"one does not trust the new", by("1", 0.1), signingBy("2", "1"), []Stance{{Trusts: []string{"1", "2"}}, {Trusts: []string{"1"}}}, true, ""},
		{"one does not run", by("1", 0.1), signingBy("2", "1"), []Stance{{Trusts: []string{"1", "2"}}, {Issuer: "1"}}, true, "2"},
		{"the old is refused", by("1", 0.1), signingBy("2"), all("2"), false, "2"},
		{"due by the old", by("1", 0.7), signingBy("2", "1"), all("1"), true, "1"},
		{"due, and the old cannot sign", by("1", 0.7), signingBy("2"), all("1"), true, ""},
		{"the last tenth, and the old cannot sign", by("1", 0.91), signingBy("2"), all("1"), true, "2"},
		{"the authority ends with the leaf", by("1", 0.7), []signing{{"1", by("1", 0.7).Until}}, all("1"), true, ""},
		{"the new authority has expired", by("1", 0.1), []signing{{"2", epoch}, {"1", epoch.Add(ages)}}, all("1", "2"), true, ""},
	} {
		s := situation{Life: life, Peer: c.leaf, Peers: c.peers, Stances: c.stances, Complete: c.complete}
		if got := decide(epoch, s).Peer; got != c.want {
			t.Errorf("%s: issued by %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDecideServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		leaf    *held
		clients []signing
		want    string
	}{
		{"the first one", nil, signingBy("1"), "1"},
		{"young", by("1", 0.5), signingBy("1"), ""},
		{"two thirds", by("1", 0.67), signingBy("1"), "1"},
		{"a new authority", by("1", 0.1), signingBy("2", "1"), "2"},
		{"a new authority that has expired", by("1", 0.1), []signing{{"2", epoch}}, ""},
		{"no key", by("1", 0.99), nil, ""},
		{"the authority ends with the leaf", by("1", 0.7), []signing{{"1", by("1", 0.7).Until}}, ""},
	} {
		if got := decide(epoch, situation{Life: life, Server: c.leaf, Clients: c.clients}).Server; got != c.want {
			t.Errorf("%s: issued by %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDecideTrust(t *testing.T) {
	old := map[string]time.Time{"1": epoch.Add(ages)}
	for _, c := range []struct {
		name string
		s    situation
		want []string
	}{
		{"the bundle, sorted", situation{Bundle: []string{"3", "2"}}, []string{"2", "3"}},
		{"nobody presents the old", situation{Bundle: []string{"2"}, Remembered: old, Complete: true}, []string{"2"}},
		{"somebody may present it", situation{Bundle: []string{"2"}, Remembered: old}, []string{"1", "2"}},
		{"another node presents it", situation{Bundle: []string{"2"}, Remembered: old, Complete: true, Stances: []Stance{{Issuer: "1"}}}, []string{"1", "2"}},
		{"this node presents it", situation{Bundle: []string{"2"}, Remembered: old, Complete: true, Peer: by("1", 0.1)}, []string{"1", "2"}},
		{"it has expired", situation{Bundle: []string{"2"}, Remembered: map[string]time.Time{"1": epoch}}, []string{"2"}},
		{"nothing is known", situation{Remembered: old}, []string{"1"}},
	} {
		if got := decide(epoch, c.s).Trust; !slices.Equal(got, c.want) {
			t.Errorf("%s: trusts %q, want %q", c.name, got, c.want)
		}
	}
}

// No leaf and no clock makes a decision that is never repeated, or repeated at once.
func TestDecideNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situation{Life: time.Duration(rapid.Int64Range(int64(minLife), int64(ages)).Draw(t, "life")), Peers: signingBy("1")}
		s.Peer = by("1", rapid.Float64Range(-1, 2).Draw(t, "age"))
		d := decide(epoch, s)
		if wait := d.Next.Sub(epoch); wait <= 0 || wait > time.Minute || wait > s.Life/20 {
			t.Fatalf("looks again after %s", wait)
		}
	})
}

// modelNode is a node of the model: what it was given, what its member loaded, and what it presents.
type modelNode struct {
	bundle []string        // the primary first
	keys   map[string]bool // of the authorities that can sign here
	file   []string        // what the member trusts from its next start on
	loaded []string        // what it trusts now; nil: it is down
	leaf   *held
}

type model []*modelNode

func (m model) situation(i int, now time.Time) situation {
	n := m[i]
	s := situation{Life: life, Peer: n.leaf, Bundle: n.bundle, Remembered: map[string]time.Time{}, Complete: true}
	for _, name := range n.file {
		s.Remembered[name] = now.Add(ages)
	}
	for _, name := range n.bundle {
		if n.keys[name] {
			s.Peers = append(s.Peers, signing{name, now.Add(ages)})
		}
	}
	for _, o := range m {
		st := Stance{Trusts: lasting(o.loaded, o.file)}
		if o.leaf != nil {
			st.Issuer = o.leaf.Issuer
		}
		s.Stances, s.Complete = append(s.Stances, st), s.Complete && o.loaded != nil
	}
	return s
}

func (m model) look(i int, now time.Time) {
	d := decide(now, m.situation(i, now))
	m[i].file = d.Trust
	if d.Peer != "" {
		m[i].leaf = &held{From: now, Until: now.Add(life), Issuer: d.Peer}
	}
}

// give is the operator's change. The node keeps the keys of authorities that it still has.
func (m model) give(i int, bundle []string) {
	n := m[i]
	n.bundle = bundle
	n.keys[bundle[0]] = true
	maps.DeleteFunc(n.keys, func(name string, _ bool) bool { return !slices.Contains(bundle, name) })
}

func (m model) refusal() string {
	for i, n := range m {
		for j, o := range m {
			if n.loaded != nil && o.loaded != nil && !slices.Contains(n.loaded, o.leaf.Issuer) {
				return fmt.Sprintf("node %d trusts %q and refuses node %d of authority %q", i, n.loaded, j, o.leaf.Issuer)
			}
		}
	}
	return ""
}

// The operator gives anything to any node in any order, and members restart, go down and come back between any two
// steps. No running member ever refuses another one, and in the end all use what was given last.
func TestChangeOfAuthority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, last := epoch, 1
		bundle := []string{"1"}
		m := make(model, rapid.IntRange(1, 5).Draw(t, "nodes"))
		for i := range m {
			m[i] = &modelNode{keys: map[string]bool{}}
		}
		for i := range m {
			m.give(i, bundle)
			m.look(i, now)
			m[i].loaded = m[i].file
		}
		node := func(t *rapid.T) int { return rapid.IntRange(0, len(m)-1).Draw(t, "node") }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if r := m.refusal(); r != "" {
					t.Fatal(r)
				}
			},
			"new authority beside the old": func(*rapid.T) { last++; bundle = append([]string{fmt.Sprint(last)}, bundle...) },
			"new authority alone":          func(*rapid.T) { last++; bundle = []string{fmt.Sprint(last)} },
			"only the newest":              func(*rapid.T) { bundle = bundle[:1] },
			"give":                         func(t *rapid.T) { m.give(node(t), bundle) },
			"look": func(t *rapid.T) {
				if i := node(t); m[i].loaded != nil {
					m.look(i, now)
				}
			},
			"start anew": func(t *rapid.T) {
				i := node(t)
				m.look(i, now)
				m[i].loaded = m[i].file
			},
			"go down":   func(t *rapid.T) { m[node(t)].loaded = nil },
			"time goes": func(*rapid.T) { now = now.Add(life / 1000) },
		})
		for range 10 {
			for i := range m {
				m.give(i, bundle)
				m.look(i, now)
				m[i].loaded = m[i].file
				if r := m.refusal(); r != "" {
					t.Fatal(r)
				}
			}
		}
		for i, n := range m {
			if want := slices.Sorted(slices.Values(bundle)); n.leaf.Issuer != bundle[0] || !slices.Equal(n.loaded, want) {
				t.Fatalf("node %d presents authority %s and trusts %q; the bundle is %q", i, n.leaf.Issuer, n.loaded, bundle)
			}
		}
	})
}
