package takeover

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast/embedded"
)

// Report is what was found in the directories of a cluster.
type Report struct {
	Members   []Member `json:"members"`
	Obstacles int      `json:"obstacles"` // how many findings block
}

// Member is what was found in one of them.
type Member struct {
	Dir      string                `json:"dir"` // that which holds etcd's directory `member`
	Findings []Finding             `json:"findings"`
	Lists    *embedded.Memberships `json:"lists,omitempty"` // nil if it could not be read
}

// Finding is something that is in the way, or worth to be known.
type Finding struct {
	Blocks bool     `json:"blocks"` // it is in the way
	Text   string   `json:"text"`
	Means  []string `json:"means,omitempty"` // what it would bring about
	Cure   string   `json:"cure,omitempty"`
}

// Check examines the directories, which should be those of all members of one cluster. Each holds etcd's directory
// `member`, or is a volume of etcd-manager.
func Check(dirs []string) Report {
	var all []Member
	for _, dir := range dirs {
		all = append(all, examine(dir))
	}
	compare(all)
	r := Report{Members: all}
	for _, m := range all {
		for _, f := range m.Findings {
			if f.Blocks {
				r.Obstacles++
			}
		}
	}
	return r
}

func (m *Member) block(text, cure string) {
	m.Findings = append(m.Findings, Finding{Blocks: true, Text: text, Cure: cure})
}

func (m *Member) warn(text, cure string) {
	m.Findings = append(m.Findings, Finding{Text: text, Cure: cure})
}

// phantoms has the ways out of lists that differ.
const phantoms = "docs/migrate.md (phantom members) has the ways out"

// examine judges what one directory says.
func examine(dir string) Member {
	m := Member{Dir: dir, Findings: []Finding{}}
	found, err := within(dir)
	if err == nil {
		m.Dir = found
		m.Lists, err = embedded.ReadMemberships(found)
	}
	if err != nil {
		m.block(err.Error(), "")
		return m
	}
	l := m.Lists
	for _, d := range l.Differences {
		in36, in37 := d.Kind.Means()
		f := Finding{Blocks: d.Kind.Blocks(), Text: d.String(),
			Means: []string{"started by etcd 3.6: " + in36, "started by etcd 3.7: " + in37}}
		if f.Blocks {
			f.Cure = phantoms
		}
		m.Findings = append(m.Findings, f)
	}
	if l.V2Unknown {
		m.warn("the file of the raft snapshot is missing, so the v2 store was not compared", "")
	}
	if l.OldEntries > 0 {
		m.block(fmt.Sprintf("the log has %d entries, the last at index %d, that etcd 3.7 cannot replay", l.OldEntries,
			l.OldLast), fmt.Sprintf("`holdfast volume repair-wal %s --dry-run` tells whether they can be left behind", m.Dir))
	}
	if l.StorageVersion == "" {
		m.warn("no etcd 3.6 has run on it: members of etcd 3.5 and of 3.7 cannot be in one cluster",
			"run etcd 3.6 on every member first, or stop all members at once")
	}
	return m
}

// within returns the directory in dir that holds etcd's directory `member`: dir itself, or, on a volume of etcd-manager,
// data/TOKEN (kubernetes-sigs/etcd-manager, pkg/etcd/etcdprocess.go).
func within(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil {
		return dir, nil
	}
	tokens, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var found []string
	for _, token := range tokens {
		in := filepath.Join(dir, "data", token.Name())
		if _, err := os.Stat(filepath.Join(in, "member")); err == nil {
			found = append(found, in)
		}
	}
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%s/data has the data of %d clusters, of which one is in use: name its directory", dir,
			len(found))
	case len(found) == 1:
		return found[0], nil
	}
	return dir, nil
}

// compare looks at what the directories say of each other.
func compare(all []Member) {
	of := map[uint64]*Member{}
	var first *Member
	for i := range all {
		m := &all[i]
		switch {
		case m.Lists == nil:
			continue
		case first == nil:
			first = m
		case m.Lists.Cluster != first.Lists.Cluster:
			m.block(fmt.Sprintf("it is of cluster %x, and %s of %x", m.Lists.Cluster, first.Dir, first.Lists.Cluster),
				"name the directories of one cluster")
			continue
		case of[m.Lists.Member] != nil:
			m.block(fmt.Sprintf("it is of the same member as %s", of[m.Lists.Member].Dir), "name one directory of each member")
			continue
		default:
			m.differs(first)
		}
		of[m.Lists.Member] = m
	}
	if first == nil {
		return
	}
	for _, l := range first.Lists.V3 {
		if !l.Learner && of[l.ID] == nil {
			first.warn(fmt.Sprintf("the directory of member %x (%s) was not examined", l.ID, cmp.Or(l.Name, "no name")),
				"name it as well: the databases may differ")
		}
	}
}

// differs compares the members in the database with those in the first one's.
func (m *Member) differs(first *Member) {
	same := slices.EqualFunc(m.Lists.V3, first.Lists.V3, func(a, b embedded.ListedMember) bool {
		return a.ID == b.ID && a.Learner == b.Learner
	})
	switch {
	case same:
	case m.Lists.Applied.Index == first.Lists.Applied.Index:
		m.block("its database lists other members than that in "+first.Dir+", and both have the same log", phantoms)
	default:
		m.block("its database lists other members than that in "+first.Dir+"; one of them may only be behind",
			"start etcd on both, and stop and examine them again; if they still differ, "+phantoms)
	}
}
