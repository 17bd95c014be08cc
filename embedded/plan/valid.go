package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnsupported is wrapped by Valid if a newer holdfast has written something that this one does not know. Such a
// value is intact, and must be treated as unknown, never as absent.
var ErrUnsupported = errors.New("a newer holdfast wrote it, and this one cannot read it")

// Limits for valid values. They are far above what a cluster needs, and keep sums from overflowing.
const (
	maxSlots    = 64       // of a cluster; etcd works badly with more than 7
	maxList     = 1024     // entries of any other list, and generations before one
	maxName     = 253      // bytes of a name, or of an ID that is not ours
	maxText     = 4 << 10  // bytes of a reason, for people
	maxNumber   = 1 << 61  // epochs, revisions, and what is added to them
	maxAttempts = 99999999 // proposals for one generation
)

// The Valid methods check what came from a disk, the store, the gossip or a tag (R20). An error names the field and its
// value. After the check, everything that decisions dereference or rely on is present and consistent. Whether it is
// true is another question.

// Valid returns an error if the record is incomplete or inconsistent.
func (r Record) Valid() error {
	switch r.Cause {
	case Founding, Restored, Recovered, Adopted:
	case "":
		return bad("cause", r.Cause, "must not be empty")
	default:
		return fmt.Errorf("cause: got %q: %w", r.Cause, ErrUnsupported)
	}
	if err := cmp.Or(named("cluster", r.Cluster), id("id", r.ID), lineage(r.Generation, r.Line, r.ID),
		within("charter", r.Charter.Valid())); err != nil {
		return err
	}
	switch c := r.Charter; {
	case c.Cluster != r.Cluster:
		return bad("charter.cluster", c.Cluster, "must be the record's, %q", r.Cluster)
	case c.Generation != r.Generation:
		return bad("charter.generation", c.Generation, "must be the record's, %d", r.Generation)
	}
	if (r.Cause == Adopted) != (r.Adopted != nil) {
		return bad("adopted", r.Adopted != nil, "does not fit the cause %s", r.Cause)
	}
	switch r.Cause {
	case Founding:
		return r.founded()
	case Adopted:
		return r.adopted()
	}
	return r.followed()
}

// founded checks what is special about the record of a founding.
func (r Record) founded() error {
	switch {
	case r.Generation != 1:
		return bad("generation", r.Generation, "must be 1 of a founding")
	case r.Restore != nil:
		return bad("restore", r.Restore.ID, "must not be there of a founding")
	case r.ID != r.Charter.ID():
		return bad("id", r.ID, "must be the hash of the charter, %s", r.Charter.ID())
	}
	return within("charter", r.Charter.complete())
}

// adopted checks what is special about the record of an adopted cluster: the members, and their seats, which name no
// disks because no node has seen the others'.
func (r Record) adopted() error {
	a := r.Adopted
	switch want := adoptedID(r.Cluster, r.Charter.PeerURL, a.Cluster); {
	case r.Generation != 1:
		return bad("generation", r.Generation, "must be 1 of an adopted cluster")
	case r.Restore != nil:
		return bad("restore", r.Restore.ID, "must not be there of an adopted cluster")
	case a.Cluster == 0:
		return bad("adopted.cluster_id", a.Cluster, "must not be 0")
	case r.ID != want:
		return bad("id", r.ID, "must be the hash of the name, the peer URL and the cluster ID, %s", want)
	case len(a.Members) != len(r.Charter.Seats):
		return bad("adopted.members", len(a.Members), "must be as many as the seats, %d", len(r.Charter.Seats))
	case a.Program != "" && a.Program != EtcdManager && a.Program != PlainEtcd:
		return bad("adopted.program", a.Program, "must be %s or %s", EtcdManager, PlainEtcd)
	}
	known := map[uint64]bool{}
	for i, m := range a.Members {
		s, at := r.Charter.Seats[i], fmt.Sprintf("adopted.members[%d]", i)
		switch {
		case m.ID == 0 || known[m.ID]:
			return bad(at+".id", m.ID, "must be a member's ID, and there once")
		case m.Learner:
			return bad(at+".learner", m.Learner, "must be a voter")
		case s != Seat{Slot: m.Slot, Member: m.ID}:
			return bad(at+".slot", m.Slot, "must have the seat of its slot, without a disk")
		}
		known[m.ID] = true
	}
	return optional("adopted.token", a.Token)
}

// followed checks what is special about the record of a later generation: the proposal, and the disks that continue.
func (r Record) followed() error {
	p := r.Restore
	if p == nil {
		return bad("restore", nil, "must be there, for the cause is %s", r.Cause)
	}
	if err := within("restore", p.Valid()); err != nil {
		return err
	}
	seated := 0
	for _, s := range r.Charter.Seats {
		seated += boolean(s.Disk != "")
	}
	survivor, _ := r.Charter.Seat(p.Survivor)
	switch {
	case p.ID != r.ID:
		return bad("restore.id", p.ID, "must be the record's, %s", r.ID)
	case p.Cluster != r.Cluster:
		return bad("restore.cluster", p.Cluster, "must be the record's, %q", r.Cluster)
	case p.PeerURL != "" && p.PeerURL != r.Charter.PeerURL:
		return bad("restore.peer_url", p.PeerURL, "must be the charter's, %q", r.Charter.PeerURL)
	case !slices.Equal(p.Line, r.Line):
		return bad("restore.line", p.Line, "must be the record's, %q", r.Line)
	case (p.Survivor != "") != (r.Cause == Recovered):
		return bad("restore.survivor", p.Survivor, "does not fit the cause %s", r.Cause)
	case r.Cause == Recovered && survivor.Disk != p.Disk:
		return bad("charter.seats", survivor.Disk, "must seat the survivor's disk %q in slot %s", p.Disk, p.Survivor)
	case r.Cause == Restored && seated <= len(r.Charter.Seats)/2:
		return bad("charter.seats", seated, "must seat a majority of %d slots", len(r.Charter.Seats))
	}
	return nil
}

// Valid returns an error if the charter is incomplete or inconsistent. Only in the record of a later generation may a
// seat have no disk.
func (c Charter) Valid() error {
	if err := cmp.Or(named("cluster", c.Cluster), bounded("peer_url", len(c.PeerURL), 1, maxName),
		printable("peer_url", c.PeerURL), bounded("seats", len(c.Seats), 1, maxSlots)); err != nil {
		return err
	}
	if c.Generation < 1 || c.Generation > maxList+1 {
		return bad("generation", c.Generation, "must be 1–%d", maxList+1)
	}
	if len(c.Seats) > 1 && !strings.Contains(c.PeerURL, "{slot}") {
		return bad("peer_url", c.PeerURL, "must contain {slot}")
	}
	disks := map[string]bool{}
	for i, s := range c.Seats {
		at := fmt.Sprintf("seats[%d]", i)
		if err := within(at, s.Valid()); err != nil {
			return err
		}
		switch {
		case i > 0 && c.Seats[i-1].Slot >= s.Slot:
			return bad(at+".slot", s.Slot, "must come after %s: each slot has one seat, in order", c.Seats[i-1].Slot)
		case s.Disk != "" && disks[s.Disk]:
			return bad(at+".disk", s.Disk, "must not have another seat")
		}
		disks[s.Disk] = true
	}
	return nil
}

// complete returns an error unless every seat has a disk.
func (c Charter) complete() error {
	for i, s := range c.Seats {
		if s.Disk == "" {
			return bad(fmt.Sprintf("seats[%d].disk", i), s.Disk, "must not be empty")
		}
	}
	return nil
}

// promised returns an error if no disk can have promised the charter.
func (c Charter) promised() error {
	if err := cmp.Or(c.Valid(), c.complete()); err != nil {
		return err
	}
	if c.Generation != 1 {
		return bad("generation", c.Generation, "must be 1 of a promise")
	}
	return nil
}

// Valid returns an error if the seat is incomplete or inconsistent.
func (s Seat) Valid() error {
	return cmp.Or(slotName("slot", s.Slot), optional("disk", s.Disk), limited("epoch", s.Epoch))
}

// Valid returns an error if the proposal is incomplete or inconsistent.
func (r Restore) Valid() error {
	err := cmp.Or(named("cluster", r.Cluster), id("id", r.ID), lineage(r.Generation, r.Line, r.ID),
		bounded("attempt", r.Attempt, 1, maxAttempts),
		revision("revision", r.Revision), revision("bump", r.Bump), text("by", r.By), text("command", r.Command),
		optional("peer_url", r.PeerURL),
		slotSet("slots", r.Slots), listOf("lost", r.Lost, maxSlots, slotName),
		listOf("overruled", r.Overruled, maxList, optional), part("led", r.Led))
	switch {
	case err != nil:
		return err
	case r.Generation < 2:
		return bad("generation", r.Generation, "must be 2 or more, for it has a parent")
	case r.Lasts < 0:
		return bad("lasts", r.Lasts, "must not be negative")
	case (r.Survivor == "") == (r.Backup == ""):
		return bad("backup", r.Backup, "must be there, or a survivor (%q), and not both", r.Survivor)
	case r.Origin != "" && (r.Survivor == "" || !slices.Contains(r.Line[:len(r.Line)-1], r.Origin)):
		return bad("origin", r.Origin, "must be absent, or an ancestor before the parent that the survivor's data is of")
	case r.Survivor != "":
		return cmp.Or(slotName("survivor", r.Survivor), named("disk", r.Disk))
	}
	return cmp.Or(named("backup", r.Backup), hexadecimal("digest", r.Digest, 64))
}

// Valid returns an error if a field is missing or malformed.
func (s Stand) Valid() error {
	return cmp.Or(named("node", s.Node), optional("slot", s.Slot), optional("disk", s.Disk),
		optional("address", s.Address), revision("revision", s.Revision))
}

// Valid returns an error if it does not say which proposal was aborted.
func (a Abort) Valid() error {
	return cmp.Or(id("id", a.ID), text("why", a.Why), part("by", a.By))
}

// Valid returns an error if the consent names no generation or no proposal.
func (c Consent) Valid() error {
	return cmp.Or(id("record", c.Record), id("proposal", c.Proposal), text("by", c.By))
}

// Valid returns an error if the set is incomplete or inconsistent.
func (s SlotSet) Valid() error {
	err := cmp.Or(id("record", s.Record), limited("serial", s.Serial), bounded("slots", len(s.Slots), 1, maxSlots),
		slotSet("slots", s.Slots), listOf("from", s.From, maxSlots, optional))
	switch {
	case err != nil:
		return err
	case s.Serial == 0:
		return bad("serial", s.Serial, "must be 1 or more")
	case !slices.IsSorted(s.From):
		return bad("from", s.From, "must be in order")
	}
	return nil
}

// Valid returns an error if a record or a proposal is invalid, or if they do not belong together. If the store is
// unknown, nothing else is checked.
func (s Store) Valid() error {
	if s.Unknown != "" {
		return nil
	}
	if err := cmp.Or(optional("id", s.ID), optional("nonce", s.Nonce), bounded("attempts", s.Attempts, 0, maxAttempts),
		listOf("met", s.Met, maxList, optional), part("record", s.Record), each("concluded", s.Concluded, concluded),
		each("aborted", s.Aborted, whole), part("restore", s.Restore)); err != nil {
		return err
	}
	if p := s.Restore; p != nil && (s.Record == nil || p.Generation != s.Record.Generation+1) {
		return bad("restore.generation", p.Generation, "must be that after the record's")
	}
	return nil
}

func concluded(field string, r Record) error {
	if err := whole(field, r); err != nil {
		return err
	}
	if r.Restore == nil {
		return bad(field+".restore", nil, "must be there, for a proposal began it")
	}
	return nil
}

// lineage checks a generation against those before it.
func lineage(generation uint64, line []string, own string) error {
	if err := bounded("line", len(line), 0, maxList); err != nil {
		return err
	}
	if generation != uint64(len(line))+1 {
		return bad("line", line, "must have one entry for each generation before %d", generation)
	}
	known := map[string]bool{own: true}
	for i, parent := range line {
		at := fmt.Sprintf("line[%d]", i)
		if err := id(at, parent); err != nil {
			return err
		}
		if known[parent] {
			return bad(at, parent, "must not be there twice")
		}
		known[parent] = true
	}
	return nil
}
