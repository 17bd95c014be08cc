package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

const (
	// snapshotWait is how long a defragmentation waits for a backup that began just before it, with the lock held.
	snapshotWait = 5 * time.Second
	// handOverTime is what a hand-over may take; a tenth of a second is usual.
	handOverTime = 10 * time.Second
	// compactTime is how long it is waited for a compaction to be carried out; it continues beyond that.
	compactTime = 2 * time.Minute
	// The lock is held for lockDefrag and another lockDefrag for each GiB at most: twenty times what a usual disk
	// takes.
	lockDefrag = 2 * time.Minute
)

// defragment gets leave, hands over, and defragments the member's database. Anyone who asks why another waits is told
// before it begins.
func (c *Coordinator) defragment(ctx context.Context, o plan.Observation) error {
	if !c.world.Etcd.Quiet() {
		return errNotYet // the lock is not held while a backup is made
	}
	leave, err := c.mayDefragment(ctx, o)
	if err != nil {
		return err
	}
	defer leave()
	c.defragging(true)
	defer c.defragging(false)
	begin, before := time.Now(), o.Member.Space.Size
	if err = c.step(ctx, o); err == nil {
		wait, cancel := context.WithTimeout(ctx, snapshotWait)
		defer cancel()
		begin = time.Now()
		err = c.world.Etcd.Defragment(wait)
	}
	if errors.Is(err, context.DeadlineExceeded) && !c.world.Etcd.Quiet() {
		return errNotYet
	}
	return c.defragmented(begin, before, err)
}

// mayDefragment gets leave: the disruption lock, or where the alarm refuses every write the leader's word.
func (c *Coordinator) mayDefragment(ctx context.Context, o plan.Observation) (leave func(), err error) {
	if o.Member.Spaceless() {
		c.asking(true) // before it asks, and until it is done: see word
		if refusal := c.askLeave(ctx, o); refusal != "" {
			c.asking(false)
			return nil, fmt.Errorf("%w: %s", errNotYet, refusal)
		}
		return func() { c.asking(false) }, nil
	}
	ttl := lockDefrag + lockDefrag*time.Duration(o.Member.Space.InUse>>30)
	return c.inTurn(ctx, "defrag", ttl, plan.Observation.Hindrance, func(f plan.Facts) bool { return !f.Fragmented })
}

// inTurn takes the disruption lock and looks again: nothing may be in the way by what the leader sees, and where this
// member leads, all others must say that they are done, for what makes all have something to do the gossip tells late.
func (c *Coordinator) inTurn(ctx context.Context, purpose string, ttl time.Duration,
	obstacle func(plan.Observation, []plan.MemberInfo) string, done func(plan.Facts) bool) (leave func(), err error) {
	leave, err = c.disrupt(ctx, purpose, ttl)
	if errors.Is(err, ErrConflict) {
		return nil, fmt.Errorf("%w: %w", errNotYet, err)
	} else if err != nil {
		return nil, err
	}
	now, _ := c.observe()
	why := obstacle(now, c.leaderSees(ctx, now))
	if now.Member.Leader {
		err = c.others(ctx, now, done)
	}
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", errNotYet, why)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// step makes sure that this member does not lead, unless it is the only one.
func (c *Coordinator) step(ctx context.Context, o plan.Observation) error {
	if !o.Member.Leader || o.Member.Voters() == 1 {
		return nil
	}
	return c.handOver(ctx)
}

// handOver gives the leadership to another voter.
func (c *Coordinator) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	c.world.Step("before-hand-over")
	if err := c.world.Etcd.HandOver(ctx); err != nil {
		return notYet(fmt.Errorf("hand the leadership over: %w", err))
	}
	c.world.Step("after-hand-over")
	if m, _ := c.world.Etcd.State(); m.Leader && m.Voters() > 1 {
		return errors.New("hand the leadership over: this member leads still")
	}
	return nil
}

// defragging tells the others that this member defragments, or does no more.
func (c *Coordinator) defragging(on bool) {
	c.mu.Lock()
	c.upkeep.defragging = on
	c.mu.Unlock()
	o, _ := c.observe()
	c.publish(o)
}

// asking notes that this member asks for the word to defragment, or has it.
func (c *Coordinator) asking(on bool) {
	c.mu.Lock()
	c.upkeep.asking = on
	c.mu.Unlock()
}

// asks reports whether it does, or defragments.
func (c *Coordinator) asks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.upkeep.asking || c.upkeep.defragging
}

// defragmented takes down how a defragmentation went. One that leaves as much to be gained as there was has failed: it
// must not be tried again and again.
func (c *Coordinator) defragmented(begin time.Time, before int64, err error) error {
	took := time.Since(begin)
	m, _ := c.world.Etcd.State()
	c.mu.Lock()
	u := &c.upkeep
	last := health.DefragStatus{Time: time.Now(), Seconds: took.Seconds(), Before: before, After: m.Space.Size}
	if err == nil {
		u.tried = true
		u.judged = c.cfg.Plan.Upkeep.Judge(plan.Judgement{}, m, true)
		// While NOSPACE is up more may have been deleted meanwhile.
		if u.judged.Fragmented && (!u.spaceless || last.After >= before) {
			err = fmt.Errorf("the database was defragmented and is as fragmented as before: %d MiB of %d MiB are in use", m.Space.InUse>>20, m.Space.Size>>20)
		}
	}
	if err != nil {
		u.done.Failures++
		again := u.fail(last.Time)
		last.Error, last.Again = err.Error(), &again
	} else {
		u.done.Defrags++
		u.rest(last.Time)
	}
	u.done.Last = &last
	c.mu.Unlock()
	if err == nil {
		c.lg.Info("defragmented the database", zap.Int64("before", before), zap.Int64("after", m.Space.Size), zap.Duration("took", took))
	}
	return err
}

// compact drops the history. It is not done again at once, whether or not it is known to have been carried out.
func (c *Coordinator) compact(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, compactTime)
	defer cancel()
	err := c.world.Etcd.Compact(ctx, revision)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	c.upkeep.compacted = time.Now()
	c.mu.Unlock()
	c.lg.Info("compacted the history", zap.Int64("revision", revision), zap.Bool("carried out", err == nil))
	return nil
}

// raise has etcd raise NOSPACE, because the volume has less than its reserve, or CORRUPT, because the member is to be given up.
func (c *Coordinator) raise(ctx context.Context, o plan.Observation, alarm string) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if err := c.world.Etcd.Raise(ctx, alarm); err != nil {
		return err
	}
	if alarm != plan.NoSpace {
		c.lg.Warn("raised the alarm " + alarm)
		return nil
	}
	r := o.Claim.Room
	c.lg.Warn("raised the alarm NOSPACE: the volume has less than its reserve", zap.Int64("free", r.Free), zap.Int64("size", r.Size), zap.Int64("reserve", r.Reserve()))
	return nil
}

// disarm takes the alarm NOSPACE back when every member says just now that its database is below the watermark, and that
// its volume has room: what gossip says may be old.
func (c *Coordinator) disarm(ctx context.Context) error {
	o, _ := c.observe()
	if o.Member.Full || o.Claim.Short || !o.Member.Leader {
		return errNotYet
	}
	if err := c.others(ctx, o, roomy); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if err := c.world.Etcd.Disarm(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.upkeep.done.Cures++
	c.mu.Unlock()
	c.lg.Info("disarmed the alarm NOSPACE: every database is below the watermark, and every volume has room")
	return nil
}

// roomy reports whether a member says that writes would find room with it.
func roomy(f plan.Facts) bool { return !f.Full && !f.Short }

// others asks every other member directly, and returns nil if all say what is wanted just now.
func (c *Coordinator) others(ctx context.Context, o plan.Observation, wanted func(plan.Facts) bool) error {
	for _, m := range o.Member.Members {
		if m.ID == o.Member.ID {
			continue
		}
		if err := c.confirms(ctx, o, m, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) confirms(ctx context.Context, o plan.Observation, m plan.MemberInfo, wanted func(plan.Facts) bool) error {
	for _, p := range o.Peers {
		if p.Facts == nil || !p.Live || p.Facts.Member != m.ID {
			continue
		}
		f, err := c.askFacts(ctx, p.Node)
		switch {
		case err != nil:
			return fmt.Errorf("ask slot %s how its member is: %w", m.Slot, err)
		case !f.Running || f.Member != m.ID || !wanted(f):
			return errNotYet
		}
		return nil
	}
	return errNotYet
}

// askForLeave begins the question for the leader's word that a slot may defragment now; the slot follows.
const askForLeave = "defragment "

// askLeave asks for the leader's word. Who leads may not be known yet, so everybody is asked.
func (c *Coordinator) askLeave(ctx context.Context, o plan.Observation) (refusal string) {
	if o.Member.Leader {
		return c.word(ctx, o.Claim.Slot)
	}
	refusal = "no node that leads was reached"
	for _, node := range c.running(o) {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		data, err := c.world.Mesh.Ask(ask, node, []byte(askForLeave+o.Claim.Slot))
		cancel()
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

// word gives this leader's word to a slot that asks, unless another one asks or has the word. It needs no memory, and
// none of the leader's before: every member says that it asks from before it does so until it is done, so that of two
// that ask, one has said so when the other's leader asks it.
func (c *Coordinator) word(ctx context.Context, slot string) (refusal string) {
	o, _ := c.observe()
	if refusal := o.Word(slot); refusal != "" {
		return refusal
	}
	for _, m := range o.Member.Members {
		if m.ID == o.Member.ID || m.Slot == slot {
			continue
		}
		if err := c.confirms(ctx, o, m, func(f plan.Facts) bool { return !f.Defragging }); err != nil {
			return fmt.Sprintf("slot %s has not said that it neither defragments nor is about to: %v", m.Slot, err)
		}
	}
	if slot != o.Claim.Slot && c.asks() {
		return "the leader itself asks as well"
	}
	c.lg.Info("gave the word to defragment", zap.String("slot", slot))
	return ""
}

// answerLeave answers the question for leave; ok is false when it is another one.
func (c *Coordinator) answerLeave(ctx context.Context, question []byte) (answer []byte, ok bool) {
	slot, ok := strings.CutPrefix(string(question), askForLeave)
	if !ok {
		return nil, false
	}
	answer, err := json.Marshal(c.word(ctx, slot))
	return answer, err == nil
}
