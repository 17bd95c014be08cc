package takeover

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	writerPrefix = "holdfast-rehearsal/"
	writerPause  = 10 * time.Millisecond // from one write to the next
	writerTime   = 2 * time.Second       // for one write; some clients wait no longer
)

// writer is a client that writes through all members, and remembers the acknowledged writes.
type writer struct {
	*clientv3.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	acked  map[string]int64 // key -> revision
	unsure int              // writes without an answer
	at     time.Time        // of the newest acknowledged write; zero before writing began
	gap    time.Duration    // the longest since the last call of longest
	worst  time.Duration    // the longest of all
}

func newWriter(urls []string) (*writer, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop(), DialTimeout: time.Second,
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second, BackoffWaitBetween: 25 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	return &writer{Client: c, cancel: func() {}, acked: map[string]int64{}}, nil
}

// write starts to write in the background.
func (w *writer) write(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	w.at = time.Now()
	w.mu.Unlock()
	w.wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			w.one(ctx, fmt.Sprintf("%s%08d", writerPrefix, n))
			select {
			case <-ctx.Done():
			case <-time.After(writerPause):
			}
		}
	})
}

func (w *writer) one(ctx context.Context, key string) {
	call, cancel := context.WithTimeout(ctx, writerTime)
	defer cancel()
	resp, err := w.Put(call, key, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch now := time.Now(); {
	case err == nil:
		w.acked[key] = resp.Header.Revision
		w.gap, w.worst, w.at = max(w.gap, now.Sub(w.at)), max(w.worst, now.Sub(w.at)), now
	case ctx.Err() == nil:
		w.unsure++
	}
}

func (w *writer) began() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.at.IsZero()
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// longest returns the longest time without an acknowledged write since the last call.
func (w *writer) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := w.gap
	w.gap = 0
	return gap.Round(time.Millisecond)
}

// end stops writing and sums up.
func (w *writer) end(r *Rehearsal) {
	w.cancel()
	w.wg.Wait()
	r.Acked, r.Unsure, r.Gap = len(w.acked), w.unsure, w.worst.Round(time.Millisecond)
	w.Close()
}

// answers tries a linearizable read through one member.
func (w *writer) answers(ctx context.Context, endpoint string) error {
	c, err := w.only(endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, writerTime)
	defer cancel()
	_, err = c.Get(ctx, writerPrefix)
	return err
}

func (w *writer) only(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
}

// leaderLast returns the members with the leader last.
func (w *writer) leaderLast(ctx context.Context, cast []actor) (all []actor) {
	var leaders []actor
	for _, a := range cast {
		asking, cancel := context.WithTimeout(ctx, writerTime)
		s, err := w.Status(asking, a.client())
		cancel()
		if err == nil && s.Leader == s.Header.MemberId {
			leaders = append(leaders, a)
		} else {
			all = append(all, a)
		}
	}
	return append(all, leaders...)
}

// verify stops writing, looks for the acknowledged writes on every member, and compares the hashes at one revision.
func (w *writer) verify(ctx context.Context, cast []actor, r *Rehearsal) error {
	w.cancel()
	w.wg.Wait()
	lost := map[string]bool{}
	for _, a := range cast {
		c, err := w.only(a.client())
		if err != nil {
			return err
		}
		got, err := c.Get(ctx, writerPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		c.Close()
		if err != nil {
			return fmt.Errorf("read from slot %s: %w", a.Slot, err)
		}
		found := map[string]int64{}
		for _, kv := range got.Kvs {
			found[string(kv.Key)] = kv.ModRevision
		}
		for key, revision := range w.acked {
			if found[key] != revision {
				lost[key] = true
			}
		}
		r.Compared = max(r.Compared, got.Header.Revision)
	}
	r.Lost = len(lost)
	for _, a := range cast {
		h, err := w.HashKV(ctx, a.client(), r.Compared)
		if err != nil {
			return fmt.Errorf("hash slot %s at revision %d: %w", a.Slot, r.Compared, err)
		}
		r.Hashes = append(r.Hashes, Hash{a.Slot, h.Hash})
	}
	if slices.ContainsFunc(r.Hashes, func(h Hash) bool { return h.Hash != r.Hashes[0].Hash }) {
		return fmt.Errorf("the members differ at revision %d", r.Compared)
	}
	if r.Lost > 0 {
		return fmt.Errorf("%d of %d acknowledged writes are lost", r.Lost, len(w.acked))
	}
	return nil
}
