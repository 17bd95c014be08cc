package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// members changes the member list, on the leader. Right before each step it checks that the step is still due.
type members struct {
	env
	holding  *holding
	decider  *decider
	peers    peers
	saver    *saver
	learners *learners
}

func (m *members) act(ctx context.Context, a plan.Action) error {
	switch a.Kind {
	case plan.Replace:
		return m.replace(ctx, a)
	case plan.Promote:
		return m.promote(ctx, a)
	case plan.Resize:
		return m.resize(ctx, a)
	case plan.Remove:
		return m.remove(ctx, a)
	case plan.Update:
		return m.update(ctx, a)
	}
	return unknown(a)
}

// replace gives a slot's holder a new membership. It asks the holder directly whether its disk is vacant, because the
// gossip may be out of date.
func (m *members) replace(ctx context.Context, a plan.Action) error {
	f, err := m.peers.facts(ctx, a.Node)
	if err != nil {
		return fmt.Errorf("confirm that slot %s is vacant: %w", a.Slot, err)
	}
	if f.Slot != a.Slot || f.Disk != a.Disk || f.Phase != plan.PhaseVacant || f.Running {
		return fmt.Errorf("node %s now says of slot %s: disk %s, %s; not replacing its member", a.Node, a.Slot, f.Disk,
			f.Phase)
	}
	m.saver.fresh(ctx, "change of the members", freshMember, saveMember)
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if a.Member != 0 {
		m.world.Step("before-remove")
		if !m.decider.stands(a) {
			return errNotYet
		}
		if err := m.world.Etcd.Remove(ctx, a.Member); err != nil {
			return notYet(fmt.Errorf("remove member %x of slot %s: %w", a.Member, a.Slot, err))
		}
		m.lg.Info("removed a member whose disk is lost", zap.String("slot", a.Slot),
			zap.String("member", fmt.Sprintf("%x", a.Member)))
		a.Member = 0
	}
	m.world.Step("before-add")
	if !m.decider.stands(a) {
		return errNotYet // the slot may have no member now: the next decision continues from there
	}
	id, err := m.world.Etcd.AddLearner(ctx, a.PeerURL)
	if err != nil {
		return notYet(fmt.Errorf("add a learner for slot %s: %w", a.Slot, err))
	}
	m.learners.admit(plan.Admission{Slot: a.Slot, Disk: a.Disk, ID: id})
	m.lg.Info("added a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", id)),
		zap.String("node", a.Node))
	return nil
}

// notYet returns errNotYet for what etcd refuses only for now.
func notYet(err error) error {
	if errors.Is(err, plan.ErrUnhealthy) || errors.Is(err, plan.ErrNotReady) {
		return errNotYet
	}
	return err
}

func (m *members) promote(ctx context.Context, a plan.Action) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if !m.decider.stands(a) {
		return errNotYet
	}
	if err := m.world.Etcd.Promote(ctx, a.Member); err != nil {
		return notYet(fmt.Errorf("promote learner %x of slot %s: %w", a.Member, a.Slot, err))
	}
	m.lg.Info("promoted a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)))
	return nil
}

// resize makes the cluster agree on a set of slots, if it directly follows the current one. So a leader that was
// deposed meanwhile, or decided on an old set, changes nothing.
func (m *members) resize(ctx context.Context, a plan.Action) error {
	data, version, err := m.world.Etcd.Key(plan.KeySlots)
	if err != nil {
		return fmt.Errorf("read the agreed slots: %w", err)
	}
	var now plan.SlotSet
	if version > 0 {
		if err := json.Unmarshal(data, &now); err != nil {
			return fmt.Errorf("decode the agreed slots: %w", err)
		}
	}
	if now.Record != a.Set.Record {
		now.Serial = 0 // it came with a restored database, and is of an earlier generation
	}
	if a.Set.Serial != now.Serial+1 {
		return errNotYet
	}
	if data, err = json.Marshal(a.Set); err != nil {
		return fmt.Errorf("encode the agreed slots: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	m.world.Step("before-resize")
	if !m.decider.stands(a) {
		return errNotYet
	}
	if err := m.world.Etcd.PutKey(ctx, plan.KeySlots, data, version); errors.Is(err, plan.ErrConflict) {
		return errNotYet
	} else if err != nil {
		return fmt.Errorf("agree on the slots: %w", err)
	}
	m.world.Step("after-resize")
	m.lg.Warn("agreed on other slots", zap.Strings("slots", a.Set.Slots), zap.Uint64("serial", a.Set.Serial))
	return nil
}

// remove removes a member that the cluster does not want, or whose join came to nothing.
func (m *members) remove(ctx context.Context, a plan.Action) error {
	m.saver.fresh(ctx, "change of the members", freshMember, saveMember)
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	m.world.Step("before-shrink")
	if !m.decider.stands(a) {
		return errNotYet
	}
	if err := m.world.Etcd.Remove(ctx, a.Member); err != nil {
		return notYet(fmt.Errorf("remove member %x of slot %s: %w", a.Member, a.Slot, err))
	}
	m.world.Step("after-shrink")
	m.lg.Warn("removed a member", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)),
		zap.String("why", a.Text()))
	return nil
}

// update gives a member another peer URL, on which it already listens.
func (m *members) update(ctx context.Context, a plan.Action) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	m.world.Step("before-update")
	if !m.decider.stands(a) {
		return errNotYet
	}
	if err := m.world.Etcd.Update(ctx, a.Member, a.PeerURL); err != nil {
		return notYet(fmt.Errorf("change the peer URL of slot %s: %w", a.Slot, err))
	}
	m.world.Step("after-update")
	m.lg.Warn("changed a peer URL", zap.String("slot", a.Slot), zap.String("url", a.PeerURL))
	return nil
}
