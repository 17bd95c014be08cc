package plan

import "fmt"

// Valid returns an error if the ledger is incomplete or inconsistent: a disk that has started, but forgot in which
// cluster, must not look blank.
func (l Ledger) Valid() error {
	switch l.Role {
	case RoleNone, RoleFounder, RoleJoiner, RoleReplacement:
	default:
		return fmt.Errorf("role: got %q: %w", l.Role, ErrUnsupported)
	}
	if err := first(l.promises(), optional("started", l.Started), ids("aborted", l.Aborted),
		optionalID("taken", l.Taken), l.parts()); err != nil {
		return err
	}
	known := l.Record != nil
	switch {
	case known && l.Role == RoleNone:
		return bad("role", l.Role, "must not be empty beside a record")
	case !known && (l.Role != RoleNone || l.Join != 0 || l.Started != "" || l.Left != nil):
		return bad("record", nil, "must be there beside role %q, join %x, started %q or left", l.Role, l.Join, l.Started)
	case l.Role == RoleJoiner && l.Join == 0:
		return bad("join", l.Join, "must be a member's ID of a joiner")
	}
	return nil
}

func (l Ledger) promises() error {
	if err := bounded("promises", len(l.Promises), 0, maxList); err != nil {
		return err
	}
	for i, c := range l.Promises {
		if err := within(fmt.Sprintf("promises[%d]", i), c.promised()); err != nil {
			return err
		}
	}
	return nil
}

// parts checks the parts of the ledger that have their own Valid.
func (l Ledger) parts() error {
	if l.Record != nil {
		if err := within("record", l.Record.Valid()); err != nil {
			return err
		}
	}
	if l.Prepared != nil {
		if err := within("prepared", l.Prepared.Valid()); err != nil {
			return err
		}
	}
	if l.Set != nil {
		if err := within("set", l.Set.Valid()); err != nil {
			return err
		}
	}
	if l.Secured != nil {
		if l.Secured.PeerURL == "" || l.Record == nil {
			return bad("secured", l.Secured.PeerURL, "must be a pattern of peer URLs, beside a record")
		}
	}
	if l.Left != nil {
		return within("left", l.Left.Valid())
	}
	return nil
}

// Valid returns an error if the proposal is missing, or the member list is invalid.
func (l Left) Valid() error {
	return first(id("proposal", l.Proposal), revision("revision", l.Revision), memberList("members", l.Members))
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
	return first(optional("slot", m.Slot), optional("peer_url", m.PeerURL))
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

func ids(field string, all []string) error {
	if err := bounded(field, len(all), 0, maxList); err != nil {
		return err
	}
	for i, s := range all {
		if err := id(fmt.Sprintf("%s[%d]", field, i), s); err != nil {
			return err
		}
	}
	return nil
}
