package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"holdfast/embedded/plan"
)

// ReadFacts reads the facts that a node published. The error wraps [plan.ErrUnsupported] if a newer version did, else
// it says what is not whole.
func ReadFacts(data []byte) (*plan.Facts, error) {
	var v struct{ Version int } // of a later version the rest may be of other types
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
		return nil, fmt.Errorf("not whole: %w", err)
	}
	return f, nil
}

// Evidence reports whether what a node published bears witness of a cluster, or may. Such words are kept from being
// forgotten by time where they may be needed.
func Evidence(state []byte) bool {
	if state == nil {
		return false
	}
	var f plan.Facts
	err := json.Unmarshal(state, &f)
	return err != nil || f.Version != 1 || f.Evidence()
}

// announcer tells the other nodes what this one says of itself.
type announcer struct {
	env
	bugs *bugs

	mu    sync.Mutex
	facts string // as published
}

// publish tells the mesh what changed in what we say of ourselves.
func (a *announcer) publish(o plan.Observation) {
	data, err := a.told(o, true)
	if err != nil { // what was told before stands
		return
	}
	a.mu.Lock()
	changed := a.facts != string(data)
	a.facts = string(data)
	a.mu.Unlock()
	if changed {
		a.world.Mesh.Publish(data)
	}
}

// removed returns those of the members that others hold data of, or admissions for, which a quorum has
// removed: they cannot know it, for nobody talks to a removed member.
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

// told encodes what this node says of itself.
func (a *announcer) told(o plan.Observation, quiet bool) (data []byte, err error) {
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
