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
	// confirmedFor is how long an answer is good for (R16), and how long one is waited for.
	confirmedFor = 5 * time.Second
	// writeAfter is how long a leader may apply nothing before it commits an entry of its own.
	writeAfter = 5 * time.Second
)

// confirmation knows whether a member has a leader (R16). The leader's ID that etcd shows is no proof of one: raft
// tells it through the loop that also writes the log, and a disk that accepts no writes stops that loop. Until the disk
// writes again the member shows the leader it had, which may be itself.
//
// The answer to a linearizable read comes through the same loop, on a leader and on a follower. So none comes while the
// loop is stopped, nor while the member cannot apply what is committed. But the loop touches the disk only when there
// is something to write. So a leader that has applied nothing for writeAfter commits an entry, which all members write
// to their logs: a transaction that never finds what it looks for. It changes neither the database nor the revision,
// and needs no room. (Asking for the alarms goes through raft as well, but etcd's checker of linearizability cannot
// read it.)
//
// All of this, and that a stalled leader cannot hand the leadership over either, TestStalledDisk finds out with a real
// disk.
//
// It never asks twice at the same time, and while no leader is known it does not ask at all: etcd would log that twice
// a second.
type confirmation struct {
	lead        func() (known, here bool)
	changed     func() <-chan struct{} // closed at the next change of leaders
	applied     func() uint64
	read, write func(context.Context) error
	ready       <-chan struct{} // closed once clients are served
	news        func()          // called when the leader has changed, clients are served, or the first answer has come
	// patience is how long an answer may be missing before the member is stalled: within two election timeouts one that
	// is merely cut off is shown no leader any more.
	patience time.Duration

	mu    sync.Mutex
	asked time.Time // when the last question was put that was answered; zero: none was
	led   bool      // it was put by the leader
	since time.Time // when the first question was put that has waited since for an answer; zero: none has
	index uint64    // applied
	grown time.Time // when index was seen to have grown
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
				return srv.LinearizableReadNotify(ctx) // every transaction is refused
			}
			_, err := srv.Txn(srv.AuthStore().WithRoot(ctx), idleTxn())
			return err
		},
		patience: max(confirmedFor, 2*time.Duration(srv.Cfg.ElectionTicks)*time.Duration(srv.Cfg.TickMs)*time.Millisecond),
		grown:    time.Now(),
	}
}

// idleTxn deletes a key that nobody writes if it was written more often than is possible.
func idleTxn() *pb.TxnRequest {
	key := []byte(keyPrefix + "idle")
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: key, Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{Version: math.MaxInt64}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}},
	}
}

// run asks until ctx ends, and returns at once then.
func (c *confirmation) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	waits := false // an entry does
	ready := c.ready
	for {
		changed := c.changed()
		if known, here := c.lead(); known {
			// One entry at a time: a disk that stalls for an hour is not to find hundreds of them. But it is given one, also
			// where a read waits already: if only the applying hangs, no entry means that nobody ever elects.
			if here && !waits && time.Since(c.progress()) >= writeAfter {
				_, waits = c.ask(ctx, c.write, here)
			} else if answered, _ := c.ask(ctx, c.read, here); answered || !here {
				waits = false
			}
		} else {
			c.mu.Lock()
			c.since = time.Time{} // an answer was not to be expected
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

// ask puts a question and waits for the answer. It counts from the moment it was put: only then a leader was sure to be
// needed. What was not answered in time waits on, what was refused does not.
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

// confirmed tells when the last question was put that was answered, and whether that is recent enough. A leader is not
// confirmed by what it was answered before it led.
func (c *confirmation) confirmed() (time.Time, bool) {
	_, leads := c.lead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, !c.asked.IsZero() && time.Since(c.asked) < confirmedFor && (c.led || !leads)
}

// stalled reports that raft shows the member a leader, and that all the same nothing was answered for longer than
// patience.
func (c *confirmation) stalled() bool {
	known, _ := c.lead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return known && !c.since.IsZero() && time.Since(c.since) >= c.patience
}

// progress tells when the applied index was seen to have grown.
func (c *confirmation) progress() time.Time {
	index := c.applied()
	c.mu.Lock()
	defer c.mu.Unlock()
	if index > c.index {
		c.index, c.grown = index, time.Now()
	}
	return c.grown
}
