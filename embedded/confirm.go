package embedded

import (
	"context"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

const (
	// askEvery is how often a running member asks for a linearizable read.
	askEvery = time.Second
	// confirmedFor is how long an answer stays valid (R16), and how long ask waits for one.
	confirmedFor = 5 * time.Second
	// writeAfter is how long a leader may apply nothing before it commits an entry of its own.
	writeAfter = 5 * time.Second
)

// confirmation establishes whether a member really has a leader (R16). The leader's ID that etcd shows is no proof.
// etcd learns it through the loop that also writes the log, and a disk that accepts no writes stops that loop. Until
// the disk writes again, the member shows the leader it had, which may be itself.
//
// The answer to a linearizable read comes through the same loop, on a leader and on a follower. So there is no answer
// while the loop is stopped, nor while the member cannot apply what is committed. But the loop touches the disk only
// when there is something to write. So a leader that has applied nothing for writeAfter commits an entry, which every
// member writes to its log: a transaction whose condition never holds. It changes neither the database nor the
// revision, and needs no space. (Listing the alarms goes through raft as well, but the linearizability checker that is
// used with etcd cannot read it.)
//
// TestStalledDisk shows all of this on a real disk, and also that a stalled leader cannot hand over the leadership.
//
// It asks one question at a time. While no leader is known it asks nothing, because etcd would log that twice a second.
type confirmation struct {
	lead        func() (known, here bool)
	changed     func() <-chan struct{} // closed at the next change of leaders
	applied     func() uint64
	read, write func(context.Context) error
	ready       <-chan struct{} // closed once clients are served
	news        func()          // called when the leader changes, clients are served, or the first answer arrives
	// patience is how long an answer may be missing before the member counts as stalled. A member that is only cut off
	// shows no leader any more within two election timeouts.
	patience time.Duration

	mu    sync.Mutex
	asked time.Time // when the last question that got an answer was asked; zero: none yet
	led   bool      // this member was the leader then
	since time.Time // when the oldest unanswered question was asked; zero: none is open
	index uint64    // the applied index as last seen
	grown time.Time // when index was last seen to grow
}

func newConfirmation(srv *etcdserver.EtcdServer, news func()) *confirmation {
	return &confirmation{
		ready: srv.ReadyNotify(), news: news,
		lead:    func() (known, here bool) { return srv.Lead() != 0, srv.Leader() == srv.MemberID() },
		changed: srv.LeaderChangedNotify,
		applied: srv.AppliedIndex,
		read:    srv.LinearizableReadNotify,
		write: func(ctx context.Context) error {
			if alarmed(srv, pb.AlarmType_CORRUPT) {
				return srv.LinearizableReadNotify(ctx) // etcd refuses every transaction
			}
			_, err := srv.Txn(srv.AuthStore().WithRoot(ctx), idleTxn())
			return err
		},
		patience: max(confirmedFor, 2*electionTimeout(srv)),
		grown:    time.Now(),
	}
}

// idleTxn deletes a key that is never written, on the condition that its version is the highest possible.
func idleTxn() *pb.TxnRequest {
	key := []byte(keyPrefix + "idle")
	return &pb.TxnRequest{
		Compare: []*pb.Compare{versionIs(key, math.MaxInt64)},
		Success: []*pb.RequestOp{deletion(&pb.DeleteRangeRequest{Key: key})},
	}
}

// run asks until ctx ends, and then returns at once.
func (c *confirmation) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	waits := false // an entry that was proposed is still open
	ready := c.ready
	for {
		changed := c.changed()
		if known, here := c.lead(); known {
			// Propose one entry at a time, so that a disk that stalled for an hour does not come back to hundreds of
			// them. Propose it even while a read is waiting. If only applying hangs, nobody would ever start an
			// election without it.
			if here && !waits && time.Since(c.progress()) >= writeAfter {
				_, waits = c.ask(ctx, c.write, here)
			} else if answered, _ := c.ask(ctx, c.read, here); answered || !here {
				waits = false
			}
		} else {
			c.mu.Lock()
			c.since = time.Time{} // no answer could be expected
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			c.news()
		case <-ready:
			ready = nil
			c.news()
		case <-tick.C:
		}
	}
}

// ask asks a question and waits for the answer. An answer counts from the moment of the question: only then is it
// certain that a leader was needed. waits reports that the question got no answer in time and is still open. A refused
// question is not open.
func (c *confirmation) ask(ctx context.Context, question func(context.Context) error, leads bool,
) (answered, waits bool) {
	ctx, cancel := context.WithTimeout(ctx, confirmedFor)
	defer cancel()
	begun := time.Now()
	c.mu.Lock()
	if c.since.IsZero() {
		c.since = begun
	}
	c.mu.Unlock()
	if question(ctx) != nil {
		return false, ctx.Err() != nil
	}
	_, was := c.confirmed()
	c.mu.Lock()
	c.asked, c.led, c.since = begun, leads, time.Time{}
	c.mu.Unlock()
	if !was {
		c.news()
	}
	return true, false
}

// confirmed returns when the last answered question was asked, and whether that is recent enough. An answer from before
// this member led does not confirm it as the leader.
func (c *confirmation) confirmed() (time.Time, bool) {
	_, leads := c.lead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, !c.asked.IsZero() && time.Since(c.asked) < confirmedFor && (c.led || !leads)
}

// stalled reports whether raft shows a leader although no question was answered for longer than patience.
func (c *confirmation) stalled() bool {
	known, _ := c.lead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return known && !c.since.IsZero() && time.Since(c.since) >= c.patience
}

// progress returns when the applied index was last seen to grow.
func (c *confirmation) progress() time.Time {
	index := c.applied()
	c.mu.Lock()
	defer c.mu.Unlock()
	if index > c.index {
		c.index, c.grown = index, time.Now()
	}
	return c.grown
}
