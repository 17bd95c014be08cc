package plan

import (
	"cmp"
	"fmt"
)

// Valid returns an error if the ledger is incomplete or inconsistent: a disk that has started, but forgot in which
// cluster, must not look blank.
func (l Ledger) Valid() error {
	switch l.Role {
	case RoleNone, RoleFounder, RoleJoiner, RoleReplacement:
	default:
		return fmt.Errorf("role: got %q: %w", l.Role, ErrUnsupported)
	}
	promised := func(field string, c Charter) error { return within(field, c.promised()) }
	if err := cmp.Or(bounded("promises", len(l.Promises), 0, maxList), each("promises", l.Promises, promised),
		optional("started", l.Started), listOf("aborted", l.Aborted, maxList, id), optionalID("taken", l.Taken),
		part("record", l.Record), part("prepared", l.Prepared), part("set", l.Set), part("left", l.Left)); err != nil {
		return err
	}
	known := l.Record != nil
	switch {
	case l.Secured != nil && (l.Secured.PeerURL == "" || !known):
		return bad("secured", l.Secured.PeerURL, "must be a pattern of peer URLs, beside a record")
	case known && l.Role == RoleNone:
		return bad("role", l.Role, "must not be empty beside a record")
	case !known && (l.Role != RoleNone || l.Join != 0 || l.Started != "" || l.Left != nil):
		return bad("record", nil, "must be there beside role %q, join %x, started %q or left", l.Role, l.Join, l.Started)
	case l.Role == RoleJoiner && l.Join == 0:
		return bad("join", l.Join, "must be a member's ID of a joiner")
	}
	return nil
}

// Valid returns an error if the proposal is missing, or the member list is invalid.
func (l Left) Valid() error {
	return cmp.Or(id("proposal", l.Proposal), revision("revision", l.Revision), memberList("members", l.Members))
}

// Valid returns an error if the entry has no ID, or has started and has no slot. A member that was added by hand and
// never started has no name, and may have a peer URL that is not ours.
func (m MemberInfo) Valid() error {
	switch {
	case m.ID == 0:
		return bad("id", m.ID, "must not be 0")
	case m.Started && m.Slot == "":
		return bad("slot", m.Slot, "must not be empty of a member that has started")
	}
	return cmp.Or(optional("slot", m.Slot), optional("peer_url", m.PeerURL))
}

func memberList(field string, all []MemberInfo) error {
	if err := bounded(field, len(all), 0, maxSlots); err != nil {
		return err
	}
	known := map[uint64]bool{}
	for i, m := range all {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := within(at, m.Valid()); err != nil {
			return err
		}
		if known[m.ID] {
			return bad(at+".id", m.ID, "must not be there twice")
		}
		known[m.ID] = true
	}
	return nil
}
