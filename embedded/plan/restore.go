package plan

import (
	"cmp"
	"slices"
	"time"
)

// Restore is a proposal to end a generation: a restore continues with a backup (R13), and a recovery continues with
// what one member of a cluster without a majority holds (R4). It is put into the store on a condition, so that at most
// one is open, and never changes. A restore is concluded once a majority of the disks has prepared; the old generation
// serves meanwhile. For a recovery, only the survivor's disk prepares and concludes. The outcome is a [Record] with
// this ID, which is final, or an abort. The fields are those of the object in the store.
type Restore struct {
	Cluster    string   `json:"cluster"`
	Generation uint64   `json:"generation"` // that it would begin: the parent's plus one
	Attempt    int      `json:"attempt"`    // counts the proposals for this generation from 1; earlier ones were aborted
	ID         string   `json:"id"`         // random: 16 hexadecimal digits; also the record's ID, if it is concluded
	Line       []string `json:"line"`       // as in Record; the last is the parent

	Backup   string `json:"backup,omitempty"` // name in the store
	Digest   string `json:"digest,omitempty"` // SHA-256 of the database, in hex: a verified backup's trailer
	Revision int64  `json:"revision"`         // of the backup; of a survivor, as far as it was known
	Bump     int64  `json:"bump"`             // added to Revision; everything up to the sum counts as compacted

	// PeerURL is the pattern of the new generation's peer URLs, "" for that of the parent's record. The members may have
	// gone from http to https since that record (R24).
	PeerURL string `json:"peer_url,omitempty"`
	// Slots are those of the new generation, sorted; absent in proposals of versions that never changed them.
	Slots []string `json:"slots,omitempty"`

	By      string `json:"by"`                // who asked, for people
	Command string `json:"command,omitempty"` // the foreign command that asked, which then never runs again
	// Led is the leader that the operator was shown: it, or a later leader of the generation, has to consent (R16). If
	// nil, the proposal says that the generation has no leader, and its voters leave.
	Led *Stand `json:"led,omitempty"`
	// Overruled are the disks whose objection to an earlier proposal the operator has seen. They do not object again
	// (R18).
	Overruled []string `json:"overruled,omitempty"`
	// Lasts is how long the proposal stays open after it was stored, by the store's time; 0 for no limit. So a forgotten
	// proposal does not roll the cluster back hours later. No decision depends on it: the store's condition decides.
	Lasts time.Duration `json:"lasts,omitempty"`
	// Survivor is the slot from whose disk a recovery continues (R4); "" for a restore, which continues from Backup. Log
	// is where that disk's log ended when it was proposed.
	Survivor string  `json:"survivor,omitempty"`
	Disk     string  `json:"disk,omitempty"` // of the survivor
	Log      *LogEnd `json:"log,omitempty"`
	// Origin is the generation of the survivor's data, if it is not the parent: the survivor was declared lost for a
	// generation in between, and now the cluster continues from its disk instead (R19). "" for the parent.
	Origin string `json:"origin,omitempty"`
	// Lost are the slots whose voters the operator declared lost (R5).
	Lost []string `json:"lost,omitempty"`
}

// Title names the proposal in a sentence: a restore of a backup, or a recovery from a slot.
func (r Restore) Title() string {
	if r.Survivor != "" {
		return "recovery from slot " + r.Survivor
	}
	return "restore of " + r.Backup
}

// Source is what the new generation continues with.
func (r Restore) Source() string {
	if r.Survivor != "" {
		return "the replayed data of slot " + r.Survivor
	}
	return "backup " + r.Backup
}

// Pattern is the pattern of the new generation's peer URLs, if it follows old.
func (r Restore) Pattern(old Charter) string { return cmp.Or(r.PeerURL, old.PeerURL) }

// founders are the new generation's slots, if it follows old.
func (r Restore) founders(old *Record) []string {
	if len(r.Slots) > 0 || old == nil {
		return r.Slots
	}
	return old.Charter.Slots()
}

// Founders are the slots with which a restore of a generation continues: those of its known voters, so that any
// majority of the new members leaves the old generation without one. If no voter is known, they are the slots that it
// wants. A change of the slots that was in progress starts over in the new generation.
func (obs Observation) Founders(old *Record) []string {
	o := look(&obs)
	var slots []string
	lists := o.lists(old) // without a leader, some lists may be old; too many slots are better than too few
	if o.Member.Running || o.leader(old) != nil {
		lists = [][]MemberInfo{o.members(old)}
	}
	for _, m := range slices.Concat(lists...) {
		if !m.Learner {
			slots = append(slots, m.Slot)
		}
	}
	if len(slots) == 0 {
		return o.slots(old)
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// Parent is the ID of the generation that it would end.
func (r Restore) Parent() string { return Record{Line: r.Line}.Parent() }

// Request is a restore or a recovery that was requested and is not proposed yet: by another program's command in the
// store, or by the configuration (restore.automatic, cluster.recovery).
type Request struct {
	Command string // its name, "" from the configuration
	Backup  string // its name, "" for the newest
	By      string
	Lost    []string // the slots whose voters count as lost
	Problem string   // not empty: it cannot be carried out, and why
	Over    bool     // it never can be, because of Problem, and is to be deleted
	// For a recovery, as in Restore.
	Survivor string
	Disk     string
	Log      *LogEnd
}
