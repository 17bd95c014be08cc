package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"holdfast/embedded"
)

// Report is the result of [Check].
type Report struct {
	Members   []Member `json:"members"`
	Obstacles int      `json:"obstacles"` // how many findings block
}

// Member is what was found in one directory.
type Member struct {
	Dir      string                `json:"dir"` // the directory that contains etcd's directory `member`
	Findings []Finding             `json:"findings"`
	Lists    *embedded.Memberships `json:"lists,omitempty"` // nil if it could not be read
}

// Finding is an obstacle or a warning.
type Finding struct {
	Code   Code     `json:"code,omitempty"` // only in a plan
	Blocks bool     `json:"blocks"`         // it is an obstacle
	Text   string   `json:"text"`
	Means  []string `json:"means,omitempty"` // the consequences
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
		r.Obstacles += len(obstacles(m.Findings))
	}
	return r
}

func obstacles(all []Finding) (texts []string) {
	for _, f := range all {
		if f.Blocks {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

func (m *Member) block(text, cure string) {
	m.Findings = append(m.Findings, Finding{Blocks: true, Text: text, Cure: cure})
}

func (m *Member) warn(text, cure string) {
	m.Findings = append(m.Findings, Finding{Text: text, Cure: cure})
}

// phantoms is the cure for lists of members that differ.
const phantoms = "docs/migrate.md (phantom members) has the ways out"

// examine judges one directory.
func examine(dir string) Member {
	m := Member{Dir: dir, Findings: []Finding{}}
	found, obstacle, err := embedded.ForeignData(dir)
	if obstacle != "" {
		m.block(obstacle, "")
		return m
	}
	if err == nil {
		m.Dir = cmp.Or(found, dir)
		m.Lists, err = embedded.ReadMemberships(m.Dir)
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
	if why, cure := l.Unreplayable(m.Dir); why != "" {
		m.block(why, cure)
	}
	if why, cure := l.TooOld(); why != "" {
		m.block(why, cure)
	} else if l.StorageVersion == "" {
		m.warn("no etcd 3.6 or newer has written its version into the database yet",
			"if etcd 3.5 runs on it, bring every member to etcd 3.6 first; docs/migrate-etcd.md says how")
	}
	return m
}

// compare adds findings about directories that do not belong together, differ, or are missing.
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

// differs compares the members in the database with those in the first directory's database.
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
