package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	// snapshotWait is how long a defragmentation, holding the lock, waits for a backup that began just before it.
	snapshotWait = 5 * time.Second
	// handOverTime bounds a hand-over; a tenth of a second is usual.
	handOverTime = 10 * time.Second
	// compactTime is how long to wait until a compaction is carried out; it may continue after that.
	compactTime = 2 * time.Minute
	// The lock is held for at most lockDefrag, plus lockDefrag for each GiB: twenty times what a usual disk takes.
	lockDefrag = 2 * time.Minute
)

// defragment gets permission, hands over, and defragments the member's database. It announces itself before it begins,
// so that other nodes know why they wait.
func (t *turn) defragment(ctx context.Context, o plan.Observation) error {
	if !t.world.Etcd.Quiet() {
		return errNotYet // a backup is being made, and the lock is not held meanwhile
	}
	release, err := t.mayDefragment(ctx, o)
	if err != nil {
		return err
	}
	defer release()
	t.defragging(true)
	defer t.defragging(false)
	begin, before := time.Now(), o.Member.Space.Size
	if err = t.stepDown(ctx, o); err == nil {
		wait, cancel := context.WithTimeout(ctx, snapshotWait)
		defer cancel()
		begin = time.Now()
		err = t.world.Etcd.Defragment(wait)
	}
	if errors.Is(err, errNotYet) {
		return err // no defragmentation was begun
	}
	if errors.Is(err, context.DeadlineExceeded) && !t.world.Etcd.Quiet() {
		return errNotYet
	}
	took := time.Since(begin)
	m, _ := t.world.Etcd.State()
	if err = t.upkeep.defragmented(m, t.cfg.Plan.Upkeep, before, took, err); err == nil {
		t.lg.Info("defragmented the database", zap.Int64("before", before), zap.Int64("after", m.Space.Size),
			zap.Duration("took", took))
	}
	return err
}

// mayDefragment takes the disruption lock, or, if an alarm refuses every write, gets the leader's permission.
func (t *turn) mayDefragment(ctx context.Context, o plan.Observation) (release func(), err error) {
	if o.Member.Alarmed(plan.NoSpace) {
		t.upkeep.asking.Store(true) // set before it asks, until it is done: see permit
		if refusal := t.askPermission(ctx, o); refusal != "" {
			t.upkeep.asking.Store(false)
			return nil, delay(refusal)
		}
		return func() { t.upkeep.asking.Store(false) }, nil
	}
	ttl := lockDefrag + lockDefrag*time.Duration(o.Member.Space.InUse>>30)
	return t.inTurn(ctx, "defrag", ttl, plan.Observation.Hindrance, func(f plan.Facts) bool { return !f.Fragmented })
}

// defragging announces whether this member defragments.
func (t *turn) defragging(on bool) {
	t.upkeep.defragging.Store(on)
	o, _ := t.observer.observe()
	t.announcer.publish(o)
}

// compact drops the history. It is not repeated at once, whether or not it is known to have been carried out.
func (t *turn) compact(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, compactTime)
	defer cancel()
	err := t.world.Etcd.Compact(ctx, revision)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	t.upkeep.compact()
	t.lg.Info("compacted the history", zap.Int64("revision", revision), zap.Bool("completed", err == nil))
	return nil
}

// raise makes etcd raise NOSPACE, because less than the reserve is free on the volume, or CORRUPT, because the member's
// data is to be given up.
func (t *turn) raise(ctx context.Context, o plan.Observation, alarm string) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if err := t.world.Etcd.Raise(ctx, alarm); err != nil {
		return err
	}
	if alarm != plan.NoSpace {
		t.lg.Warn("raised the alarm " + alarm)
		return nil
	}
	r := o.Claim.Room
	t.lg.Warn("raised the alarm NOSPACE: the volume has less than its reserve", zap.Int64("free", r.Free),
		zap.Int64("size", r.Size), zap.Int64("reserve", r.Reserve()))
	return nil
}

// disarm disarms NOSPACE if every member says, asked directly, that its database is below the watermark and its volume
// has room. The gossip may be out of date.
func (t *turn) disarm(ctx context.Context) error {
	o, _ := t.observer.observe()
	if o.Member.Full || o.Claim.Short || !o.Member.Leader {
		return errNotYet
	}
	if err := t.peers.others(ctx, o, roomy); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if err := t.world.Etcd.Disarm(ctx); err != nil {
		return err
	}
	t.upkeep.cure()
	t.lg.Info("disarmed the alarm NOSPACE: every database is below the watermark, and every volume has room")
	return nil
}

// roomy reports whether a member says that it has room for writes.
func roomy(f plan.Facts) bool { return !f.Full && !f.Short }

// askForPermission begins a question for the leader's permission to defragment a slot; the slot follows.
const askForPermission = "defragment "

// askPermission asks for the leader's permission. It may not be known who leads, so every running node is asked.
func (t *turn) askPermission(ctx context.Context, o plan.Observation) (refusal string) {
	if o.Member.Leader {
		return t.permit(ctx, o.Claim.Slot)
	}
	refusal = "no node that leads was reached"
	for _, node := range t.peers.running(o) {
		data, err := t.peers.ask(ctx, node, []byte(askForPermission+o.Claim.Slot))
		var answer string
		if err != nil || json.Unmarshal(data, &answer) != nil {
			continue
		}
		if answer == "" {
			return ""
		}
		refusal = answer
	}
	return refusal
}

// permit grants this leader's permission to a slot, unless another slot asks or has it. Neither this leader nor an
// earlier one has to remember anything. Every member says that it asks, from before it asks until it is done. So if two
// members ask, one has already said so when the other's leader asks it.
func (t *turn) permit(ctx context.Context, slot string) (refusal string) {
	o, _ := t.observer.observe()
	if refusal := o.Permit(); refusal != "" {
		return refusal
	}
	for _, m := range o.Member.Members {
		if m.ID == o.Member.ID || m.Slot == slot {
			continue
		}
		if err := t.peers.confirms(ctx, o, m, func(f plan.Facts) bool { return !f.Defragging }); err != nil {
			return fmt.Sprintf("slot %s has not said that it neither defragments nor is about to: %v", m.Slot, err)
		}
	}
	if slot != o.Claim.Slot && t.upkeep.asks() {
		return "the leader itself asks as well"
	}
	t.lg.Info("granted permission to defragment", zap.String("slot", slot))
	return ""
}

// answer answers a slot that asks for permission.
func (t *turn) answer(ctx context.Context, slot []byte) ([]byte, error) {
	return json.Marshal(t.permit(ctx, string(slot)))
}
