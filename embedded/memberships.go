package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/embedded/plan"
)

// Memberships is what a data directory says of the cluster's members, in each place where an etcd reads them. Up to 3.5
// etcd has two lists. The v2 store, which lives in the raft snapshots and the log, is authoritative there. The bucket
// `members` in the database is authoritative from 3.6 on; 3.7 takes even raft's voters from it
// (etcdserver/bootstrap.go, buildConfStateFromV3store). So a wrong bucket goes unnoticed until the upgrade. All lists
// are as of Applied, sorted by ID.
type Memberships struct {
	Member  uint64 `json:"member"`  // ID of this directory's own member, from the log
	Cluster uint64 `json:"cluster"` // ID of the cluster, from the log

	ClusterVersion string `json:"cluster_version,omitempty"` // "" if the database has none, as before etcd 3.5
	// StorageVersion is "" until an etcd 3.6 or newer has run here. From then on the v2 list is derived from the
	// database and proves nothing; raft's configuration still does.
	StorageVersion string `json:"storage_version,omitempty"`

	Applied  plan.LogEnd `json:"applied"`  // the last log entry that the database contains; its term is 0 before 3.5
	Snapshot uint64      `json:"snapshot"` // index of the raft snapshot that the log continues; 0: none
	Log      plan.LogEnd `json:"log"`      // where the log ends; before Applied only if it was not synced to disk

	V3        []ListedMember `json:"v3"` // the bucket `members`
	V3Removed []uint64       `json:"v3_removed,omitempty"`
	// V2 is the v2 store: the raft snapshot's, with the changes in the log since. It lacks names that were announced
	// only in the log.
	V2        []ListedMember `json:"v2"`
	V2Removed []uint64       `json:"v2_removed,omitempty"`
	V2Unknown bool           `json:"v2_unknown,omitempty"` // the file of the raft snapshot is missing

	// Voters and Learners are raft's configuration: from the database, or before etcd 3.5 from the raft snapshot and
	// the log.
	Voters   []uint64 `json:"voters"`
	Learners []uint64 `json:"learners,omitempty"`

	Differences []Difference `json:"differences,omitempty"` // by ID

	// OldEntries counts the log entries that etcd 3.7 cannot replay; OldLast is the index of the last of them. See
	// RepairWAL.
	OldEntries int    `json:"old_entries,omitempty"`
	OldLast    uint64 `json:"old_last,omitempty"`
}

// ListedMember is one member in one of the lists.
type ListedMember struct {
	ID       uint64   `json:"id"`
	Name     string   `json:"name,omitempty"` // "" if it never started
	PeerURLs []string `json:"peer_urls,omitempty"`
	Learner  bool     `json:"learner,omitempty"`
}

// Standing is what one of the lists says of a member.
type Standing string

const (
	isAbsent  Standing = "absent"
	isVoter   Standing = "voter"
	isLearner Standing = "learner"
	isRemoved Standing = "removed" // absent, and its ID can never be used again
)

// listed reports whether the list has the member as a voter or a learner.
func (s Standing) listed() bool { return s == isVoter || s == isLearner }

// Difference is a member on which the lists disagree.
type Difference struct {
	Kind Discrepancy `json:"kind"`
	ID   uint64      `json:"id"`
	Name string      `json:"name,omitempty"`
	V3   Standing    `json:"v3"`
	V2   Standing    `json:"v2,omitempty"` // "" if it is not known
	Raft Standing    `json:"raft"`
	// V3URLs and V2URLs are the peer URLs, if they differ.
	V3URLs []string `json:"v3_urls,omitempty"`
	V2URLs []string `json:"v2_urls,omitempty"`
}

// String describes the difference in one line.
func (d Difference) String() string {
	text := fmt.Sprintf("member %x (%s): the database says %s, raft %s", d.ID, cmp.Or(d.Name, "no name"), d.V3, d.Raft)
	if d.V2 != "" {
		text += fmt.Sprintf(", the v2 store %s", d.V2)
	}
	if d.Kind == listedTwice {
		text += ", and the database says as well that it was removed"
	}
	if d.V3URLs != nil {
		text += fmt.Sprintf("; the peer URLs are %s and %s", strings.Join(d.V3URLs, ","), strings.Join(d.V2URLs, ","))
	}
	return text
}

// Discrepancy is a kind of difference between the lists.
type Discrepancy string

// Means says what each of these does when etcd 3.6 or 3.7 starts.
const (
	onlyV3       Discrepancy = "only-v3"       // a phantom: the database lists a member that raft does not have
	onlyV2       Discrepancy = "only-v2"       // a lost member: raft or the v2 store has it, the database does not
	learnerInV3  Discrepancy = "learner-in-v3" // promoted, but the database still calls it a learner
	voterInV3    Discrepancy = "voter-in-v3"   // never promoted, but the database calls it a voter
	listedTwice  Discrepancy = "listed-twice"  // the database lists it both as a member and as a removed one
	otherURLs    Discrepancy = "other-urls"    // the peer URLs in the database and in the v2 store differ
	staleV2      Discrepancy = "stale-v2"      // the database and raft agree, the v2 store differs
	noDifference Discrepancy = ""
)

// Means says what a difference of this kind does when etcd 3.6 or etcd 3.7 is started on the directory, one sentence
// for each.
func (k Discrepancy) Means() (in36, in37 string) {
	m := meanings[k]
	return m[0], m[1]
}

// meanings are from the source of etcd 3.6.16 and 3.7.3. TestPhantoms and its neighbours show those of 3.7. For 3.6,
// onlyV3, onlyV2 and learnerInV3 were tried by hand with 3.6.14.
var meanings = map[Discrepancy][2]string{
	onlyV3: {
		"it is listed and dialed, but does not vote; `etcdctl member remove` of it may end all members with a panic, " +
			"again at each start",
		"it is a member again: a voter counts for the majority, which may be out of reach from the first start",
	},
	onlyV2: {
		"it votes, but nobody dials it; a member panics when it finds its name announced in the log",
		"it is no member: its vote is gone, nobody sends to it; a member panics when it finds its name announced in the log",
	},
	learnerInV3: {
		"it is put right if the raft snapshot knows of the promotion; else it is listed as a learner, and etcd itself " +
			"does not start with two such members",
		"it is a learner again: its vote is gone, so the others need fewer for a majority; etcd itself does not start " +
			"with two such members",
	},
	voterInV3: {
		"it is listed as a voter, does not vote, and cannot be promoted",
		"it votes, though it may not have the data yet",
	},
	listedTwice: {
		"it is listed, and no message is sent to it",
		"it is a member again, and no message is sent to it: a voter that can never answer",
	},
	otherURLs: {
		"members dial the database's URLs",
		"members dial the database's URLs",
	},
	staleV2: {
		"a learner of the database that the v2 store calls a voter becomes one; else nothing",
		"nothing: the v2 store is not read",
	},
}

// Blocks reports whether an upgrade must wait until differences of this kind are gone.
func (k Discrepancy) Blocks() bool { return k != staleV2 }

// compare finds the differences.
func (m *Memberships) compare() {
	v3, v2 := byID(m.V3), byID(m.V2)
	ids := map[uint64]bool{}
	for _, list := range [][]uint64{slices.Collect(maps.Keys(v3)), slices.Collect(maps.Keys(v2)), m.Voters, m.Learners} {
		for _, id := range list {
			ids[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		d := Difference{ID: id, Name: cmp.Or(v3[id].Name, v2[id].Name),
			V3: standing(v3, m.V3Removed, id), Raft: m.inRaft(id)}
		if !m.V2Unknown {
			d.V2 = standing(v2, m.V2Removed, id)
		}
		if d.Kind = d.kind(); d.Kind == noDifference && slices.Contains(m.V3Removed, id) {
			d.Kind = listedTwice
		}
		if d.V3.listed() && d.V2.listed() && !slices.Equal(sorted(v3[id].PeerURLs), sorted(v2[id].PeerURLs)) {
			d.V3URLs, d.V2URLs = v3[id].PeerURLs, v2[id].PeerURLs
			if d.Kind == noDifference {
				d.Kind = otherURLs
			}
		}
		if d.Kind != noDifference {
			m.Differences = append(m.Differences, d)
		}
	}
}

// kind compares the standings. Raft decides, because its configuration is what has voted.
func (d Difference) kind() Discrepancy {
	switch {
	case d.V3.listed() && !d.Raft.listed():
		return onlyV3
	case !d.V3.listed() && (d.Raft.listed() || d.V2.listed()):
		return onlyV2
	case d.V3 == isLearner && d.Raft == isVoter:
		return learnerInV3
	case d.V3 == isVoter && d.Raft == isLearner:
		return voterInV3
	case d.V2 != "" && d.V2 != d.V3:
		return staleV2
	}
	return noDifference
}

func (m *Memberships) inRaft(id uint64) Standing {
	switch {
	case slices.Contains(m.Voters, id):
		return isVoter
	case slices.Contains(m.Learners, id):
		return isLearner
	}
	return isAbsent
}

func standing(list map[uint64]ListedMember, removed []uint64, id uint64) Standing {
	m, ok := list[id]
	switch {
	case ok && m.Learner:
		return isLearner
	case ok:
		return isVoter
	case slices.Contains(removed, id):
		return isRemoved
	}
	return isAbsent
}

func byID(list []ListedMember) map[uint64]ListedMember {
	members := map[uint64]ListedMember{}
	for _, m := range list {
		members[m.ID] = m
	}
	return members
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
