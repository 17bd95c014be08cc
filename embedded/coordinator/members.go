package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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

// step takes one step through raft, if it is still what the plan decides. what begins an error.
func (m *members) step(ctx context.Context, a plan.Action, name, what string, take func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	m.world.Step("before-" + name)
	if !m.decider.stands(a) {
		return errOvertaken
	}
	if err := take(ctx); err != nil {
		return notYet(fmt.Errorf("%s: %w", what, err))
	}
	m.world.Step("after-" + name)
	return nil
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
	m.saver.fresh(ctx, "", freshMember, saveMember)
	if a.Member != 0 {
		if err := m.take(ctx, a, "remove"); err != nil {
			return err
		}
		m.lg.Info("removed a member whose disk is lost", zap.String("slot", a.Slot),
			zap.String("member", fmt.Sprintf("%x", a.Member)))
		a.Member = 0
	}
	var id uint64
	err = m.step(ctx, a, "add", "add a learner for slot "+a.Slot, func(ctx context.Context) (err error) {
		id, err = m.world.Etcd.AddLearner(ctx, a.PeerURL)
		return err
	})
	if err != nil {
		return err // the slot may have no member now: the next decision continues from there
	}
	m.learners.admit(plan.Admission{Slot: a.Slot, Disk: a.Disk, ID: id})
	m.lg.Info("added a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", id)),
		zap.String("node", a.Node))
	return nil
}

// take takes a member out of the list.
func (m *members) take(ctx context.Context, a plan.Action, name string) error {
	return m.step(ctx, a, name, fmt.Sprintf("remove member %x of slot %s", a.Member, a.Slot),
		func(ctx context.Context) error { return m.world.Etcd.Remove(ctx, a.Member) })
}

// notYet returns a delay for what etcd refuses only for now, or because another change came first.
func notYet(err error) error {
	if errors.Is(err, plan.ErrUnhealthy) || errors.Is(err, plan.ErrNotReady) || errors.Is(err, plan.ErrConflict) {
		return delay(err.Error())
	}
	return err
}

func (m *members) promote(ctx context.Context, a plan.Action) error {
	err := m.step(ctx, a, "promote", fmt.Sprintf("promote learner %x of slot %s", a.Member, a.Slot),
		func(ctx context.Context) error { return m.world.Etcd.Promote(ctx, a.Member) })
	if err != nil {
		return err
	}
	m.lg.Info("promoted a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)))
	return nil
}

// resize makes the cluster agree on a set of slots, if it follows the current one. So a leader that was deposed
// meanwhile, or decided on an old set, changes nothing. A serial is left out where the key was lost, and its last
// content is known from the disks.
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
	if a.Set.Serial <= now.Serial {
		return errNotYet
	}
	if data, err = json.Marshal(a.Set); err != nil {
		return fmt.Errorf("encode the agreed slots: %w", err)
	}
	err = m.step(ctx, a, "resize", "agree on the slots",
		func(ctx context.Context) error { return m.world.Etcd.PutKey(ctx, plan.KeySlots, data, version) })
	if err != nil {
		return err
	}
	m.lg.Warn("agreed on other slots", zap.Strings("slots", a.Set.Slots), zap.Uint64("serial", a.Set.Serial))
	return nil
}

// remove removes a member that the cluster does not want, or whose join came to nothing.
func (m *members) remove(ctx context.Context, a plan.Action) error {
	m.saver.fresh(ctx, "", freshMember, saveMember)
	if err := m.take(ctx, a, "shrink"); err != nil {
		return err
	}
	m.lg.Warn("removed a member", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)),
		zap.String("why", a.Text()))
	return nil
}

// update gives a member another peer URL, on which it already listens.
func (m *members) update(ctx context.Context, a plan.Action) error {
	err := m.step(ctx, a, "update", "change the peer URL of slot "+a.Slot,
		func(ctx context.Context) error { return m.world.Etcd.Update(ctx, a.Member, a.PeerURL) })
	if err != nil {
		return err
	}
	m.lg.Warn("changed a peer URL", zap.String("slot", a.Slot), zap.String("url", a.PeerURL))
	return nil
}

const (
	// stuckAfter is how long a lagging learner may make no progress before it is stuck. stuckReceiving is the same while
	// it receives a whole database, during which raft reports no progress.
	stuckAfter     = 5 * time.Minute
	stuckReceiving = 30 * time.Minute
)

// learners is what this leader remembers about its learners while it leads.
type learners struct {
	mu       sync.Mutex
	admitted map[string]plan.Admission // by slot
	progress map[uint64]progressed     // by ID: how far each was when it last made progress
}

type progressed struct {
	matched uint64
	since   time.Time
}

// admit remembers a learner that was added.
func (l *learners) admit(a plan.Admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admitted == nil {
		l.admitted = map[string]plan.Admission{}
	}
	l.admitted[a.Slot] = a
}

// tell adds the admitted learners, and marks those that are stuck. A connected learner that is in sync is not stuck: it
// waits for something else.
func (l *learners) tell(o *plan.Observation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.Member.Leader {
		l.admitted, l.progress = nil, nil // only a leader's admissions count
		return
	}
	o.Member.Admitted = slices.SortedFunc(maps.Values(l.admitted), func(a, b plan.Admission) int {
		return strings.Compare(a.Slot, b.Slot)
	})
	before := l.progress
	l.progress = map[uint64]progressed{} // forgets learners that are gone
	o.Member.Members = slices.Clone(o.Member.Members)
	for i := range o.Member.Members {
		m := &o.Member.Members[i]
		if !m.Learner {
			continue
		}
		p, ok := before[m.ID]
		if !ok || m.Matched > p.matched || o.Member.InSync(*m) && m.Connected {
			p = progressed{m.Matched, now}
		}
		patience := stuckAfter
		if m.Receiving {
			patience = stuckReceiving
		}
		m.Stuck = now.Sub(p.since) >= patience
		l.progress[m.ID] = p
	}
}
