package plan

import (
	"cmp"
	"slices"
	"time"
)

// Restore is the proposal to continue with a backup as a new generation (R13): a restore; or with what one member of a
// cluster without a majority holds (R4): a recovery. It is put into the store with a condition, so that at most one is
// open, and never changes. While a restore is open the old generation serves and every disk prepares; once a majority
// has, it is concluded. Of a recovery only the survivor's disk prepares, and then concludes. A [Record] with this ID is
// the outcome, which cannot be taken back. An open proposal can be aborted instead. Its fields are those of the object
// in the store.
type Restore struct {
	Cluster    string   `json:"cluster"`
	Generation uint64   `json:"generation"` // that it would begin: its parent's and one
	Attempt    int      `json:"attempt"`    // counts the proposals for this generation from 1; those before were aborted
	ID         string   `json:"id"`         // random: 16 hexadecimal digits; the record's, if it comes to that
	Line       []string `json:"line"`       // as in Record; its last is the parent

	Backup   string `json:"backup,omitempty"` // name in the store
	Digest   string `json:"digest,omitempty"` // SHA-256 of the database, in hex: the trailer that a verified backup has
	Revision int64  `json:"revision"`         // of the backup; of a survivor, as far as it was known
	Bump     int64  `json:"bump"`             // added to Revision; everything up to the sum counts as compacted

	// PeerURL is the pattern of the peer URLs that it would begin with, "" for those of its parent's record: the members
	// may have gone from http to https since (R24).
	PeerURL string `json:"peer_url,omitempty"`
	// Slots are those of the generation that it would begin, sorted; absent in proposals of versions that never changed
	// them.
	Slots []string `json:"slots,omitempty"`

	By      string `json:"by"`                // who asked, for people
	Command string `json:"command,omitempty"` // the foreign command that asked, which then never runs again
	// Led is the leader that the operator was shown: that leader, or a later one of the generation, has to consent
	// (R16). nil: the generation is said to have none, and its voters leave it.
	Led *Stand `json:"led,omitempty"`
	// Overruled are the disks whose objection to an earlier proposal the operator has seen: they meet no second one
	// (R18).
	Overruled []string `json:"overruled,omitempty"`
	// Lasts is how long it stays open after the store got it, by the store's own time; 0 for no end. So one that
	// everybody has left does not roll the cluster back hours later. No decision depends on it: the store's condition
	// arbitrates.
	Lasts time.Duration `json:"lasts,omitempty"`
	// Survivor is the slot whose disk the generation continues from, of a recovery (R4); "" for a restore, which
	// continues from Backup. Log is where its log ended when it was proposed.
	Survivor string  `json:"survivor,omitempty"`
	Disk     string  `json:"disk,omitempty"` // of the survivor
	Log      *LogEnd `json:"log,omitempty"`
	// Origin is the ID of the generation that the survivor's data is of, where that is not the parent's: the survivor
	// was declared lost for a generation in between, and the cluster continues from its disk instead (R19). "" for the
	// parent.
	Origin string `json:"origin,omitempty"`
	// Lost are the slots whose voters the operator declares dead (R5).
	Lost []string `json:"lost,omitempty"`
}

// Title names the proposal in a sentence: a restore of a backup, or a recovery from a slot.
func (r Restore) Title() string {
	if r.Survivor != "" {
		return "recovery from slot " + r.Survivor
	}
	return "restore of " + r.Backup
}

// Source is what the generation continues with.
func (r Restore) Source() string {
	if r.Survivor != "" {
		return "the replayed data of slot " + r.Survivor
	}
	return "backup " + r.Backup
}

// Pattern is the pattern of the peer URLs of the generation that it would begin after old.
func (r Restore) Pattern(old Charter) string { return cmp.Or(r.PeerURL, old.PeerURL) }

// founders are the slots of the generation that it would begin after old.
func (r Restore) founders(old *Record) []string {
	if len(r.Slots) > 0 || old == nil {
		return r.Slots
	}
	return old.Charter.Slots()
}

// Founders are the slots with which a restore continues from a generation: those of its voters, as far as they are
// known, so that any majority of the new members leaves the old ones without one; else those that it wants. What was
// under way of a change of the slots starts over in the new generation.
func (obs Observation) Founders(old *Record) []string {
	o := look(&obs)
	var slots []string
	lists := o.lists(old) // without a leader some may be old, and then too many slots are better than too few
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

// Request is a restore or a recovery that was asked for and is not proposed yet: by a command that another program has
// left in the store, or by the configuration (restore.automatic, cluster.recovery).
type Request struct {
	Command string // its name, "" for the configuration's
	Backup  string // its name, "" for the newest
	By      string
	Lost    []string // the slots whose voters count as dead
	Problem string   // not empty: it cannot be carried out, and why
	Over    bool     // it never will be, for Problem: it is to be deleted
	// Of a recovery, as in Restore.
	Survivor string
	Disk     string
	Log      *LogEnd
}
