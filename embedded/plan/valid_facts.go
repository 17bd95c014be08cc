package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// factsVersion is the version of the facts that this holdfast writes and understands.
const factsVersion = 1

// Valid returns an error if the facts are incomplete or inconsistent.
func (f Facts) Valid() error {
	switch {
	case f.Version > factsVersion:
		return fmt.Errorf("version: got %d: %w", f.Version, ErrUnsupported)
	case f.Version < factsVersion:
		return bad("version", f.Version, "must be %d or more", factsVersion)
	}
	return cmp.Or(f.held(), f.words(), f.clustered(), f.counted())
}

// held checks the facts about the held disk.
func (f Facts) held() error {
	record := false
	switch f.Phase {
	case PhaseNone:
		if f.Slot != "" || f.Disk != "" || f.Record != nil || f.Promise != nil || f.Left != nil || f.Running {
			return bad("phase", f.Phase, "must not be empty of a node that holds a disk")
		}
		return nil
	case PhaseWaiting:
		return cmp.Or(optional("slot", f.Slot), optional("disk", f.Disk), limited("epoch", f.Epoch))
	case PhaseBlank:
	case PhaseFounder, PhaseJoiner, PhaseVacant, PhaseData:
		record = true
	default:
		return fmt.Errorf("phase: got %q: %w", f.Phase, ErrUnsupported)
	}
	switch {
	case record && f.Record == nil:
		return bad("record", nil, "must be there in phase %s", f.Phase)
	case !record && (f.Record != nil || f.Left != nil):
		return bad("phase", f.Phase, "must not be that of a disk with a record")
	}
	return cmp.Or(slotName("slot", f.Slot), named("disk", f.Disk), limited("epoch", f.Epoch))
}

// words checks texts and IDs.
func (f Facts) words() error {
	err := cmp.Or(slotSet("slots", f.Slots), optional("peer_url", f.PeerURL), optional("store", f.Store),
		optional("nonce", f.Nonce), optional("lock", f.Lock),
		optional("etcd", f.Etcd), optional("agreed", f.Agreed), optional("issuer", f.Issuer), optional("control", f.Control),
		optional("secured", f.Secured), text("unable", f.Unable),
		listOf("trusts", f.Trusts, maxList, optional), listOf("clients", f.Clients, maxList, optional),
		bounded("holders", len(f.Holders), 0, maxList),
		optionalID("restore", f.Restore), optionalID("prepared", f.Prepared), optionalID("consent", f.Consent))
	if err != nil {
		return err
	}
	for slot, node := range f.Holders {
		if err := cmp.Or(slotName("holders", slot), named("holders."+slot, node)); err != nil {
			return err
		}
	}
	return nil
}

// clustered checks the facts about the cluster.
func (f Facts) clustered() error {
	if f.Promise != nil {
		if err := within("promise", f.Promise.promised()); err != nil {
			return err
		}
	}
	if err := cmp.Or(part("record", f.Record), part("set", f.Set), part("left", f.Left)); err != nil {
		return err
	}
	if f.Left != nil && f.Record == nil {
		return bad("record", nil, "must be there beside left")
	}
	return nil
}

// counted checks member IDs.
func (f Facts) counted() error {
	if err := cmp.Or(memberList("members", f.Members), bounded("removed", len(f.Removed), 0, maxList),
		bounded("admitted", len(f.Admitted), 0, maxSlots)); err != nil {
		return err
	}
	if i := slices.Index(f.Removed, 0); i >= 0 {
		return bad(fmt.Sprintf("removed[%d]", i), 0, "must be a member's ID")
	}
	return each("admitted", f.Admitted, whole)
}

// Valid returns an error unless the admission names a member, a slot and a disk.
func (a Admission) Valid() error {
	if a.ID == 0 {
		return bad("id", a.ID, "must not be 0")
	}
	return cmp.Or(slotName("slot", a.Slot), named("disk", a.Disk))
}
