package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdfast/embedded/plan"
)

// ReadFacts decodes the facts that a node published. The error wraps [plan.ErrUnsupported] if a newer version wrote
// them. Otherwise it says what is invalid.
func ReadFacts(data []byte) (*plan.Facts, error) {
	var v struct{ Version int } // in a later version, the other fields may have other types
	f := new(plan.Facts)
	err := json.Unmarshal(data, &v)
	if err == nil && v.Version > 1 {
		f.Version = v.Version
	} else if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err == nil {
		err = f.Valid()
	}
	switch {
	case errors.Is(err, plan.ErrUnsupported):
		return nil, fmt.Errorf("unsupported: %w", err)
	case err != nil:
		return nil, fmt.Errorf("invalid: %w", err)
	}
	return f, nil
}

// Evidence reports whether a node's published state shows a cluster, or may. The gossip keeps such a state of a lost
// node as long as it may be needed.
func Evidence(state []byte) bool {
	if state == nil {
		return false
	}
	var f plan.Facts
	err := json.Unmarshal(state, &f)
	return err != nil || f.Version != 1 || f.Evidence()
}

// announcer announces this node's facts to the others.
type announcer struct {
	env
	bugs *bugs
}

// publish gives the mesh this node's facts. What a slower caller gives it too late is put right by the next look.
func (a *announcer) publish(o plan.Observation) {
	if data, err := a.encode(o, true); err == nil { // otherwise the facts published before stay
		a.world.Mesh.Publish(data)
	}
}

// removed returns which of the members that other nodes have data or admissions of were removed. Those nodes cannot
// know, because nobody talks to a removed member.
func (a *announcer) removed(o plan.Observation) []uint64 {
	var ids []uint64
	for _, p := range o.Peers {
		if p.Facts == nil || !o.Member.Running {
			continue
		}
		for _, id := range []uint64{p.Facts.Member, p.Facts.Join} {
			if id != 0 && a.world.Etcd.IsRemoved(id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// encode encodes this node's facts.
func (a *announcer) encode(o plan.Observation, quiet bool) (data []byte, err error) {
	if bug := a.bugs.guard(theFacts, func() {
		f := o.Facts(a.removed(o))
		if quiet {
			f = f.Quiet()
		}
		data, err = json.Marshal(f)
	}); bug != "" {
		return nil, errors.New(bug)
	}
	return data, err
}
