package generations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"holdfast/embedded/health"
)

// presence is what a process puts for the others that share the store.
type presence struct {
	Node  string `json:"node"`
	Nonce string `json:"nonce"`
}

const hereDir = "here/"

// storeTick is more than the resolution of any store's times.
const storeTick = 2 * time.Second

// Meet puts this process's nonce into the store, once. It puts it again if it is gone, or if the clock must be
// measured.
func (r *Records) Meet(ctx context.Context, who, nonce string) error {
	if r.isPut(nonce) {
		return nil
	}
	data, err := json.Marshal(presence{who, nonce})
	if err != nil {
		return err
	}
	name := r.HereName(who)
	s, err := timed(name, func() error { return r.Store.Put(ctx, name, bytes.NewReader(data)) })
	if err != nil {
		return fmt.Errorf("put %s into the store: %w", name, err)
	}
	r.noncePut(nonce, s)
	return nil
}

// meetAll reads the nonces of all nodes, and ignores one that cannot be read. One younger than the resolution of the
// store's times is read again the next time, because a restarted process may have replaced it.
func (r *Records) meetAll(ctx context.Context, l listing) {
	nonces := map[string]string{}
	for _, o := range l.here {
		var p presence
		if l.newest.Sub(o.Modified) < storeTick {
			o.Modified = time.Time{} // so that it is not cached
		}
		_, _, err := r.read(ctx, o, &p, func() error { return nil })
		if err == nil && p.Nonce != "" && o.Name == r.HereName(p.Node) {
			nonces[p.Nonce] = p.Node
		}
	}
	r.listed(l, nonces)
}

// encounters records which nodes were found in the store, and how far this process's clock differs from the store's.
type encounters struct {
	mu     sync.Mutex
	met    string            // the nonce that this process has put
	nonces map[string]string // node by nonce
	clock  clockwork
}

// Nonces returns the nonces of all nodes that were in the store when it was last read.
func (e *encounters) Nonces() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nonces
}

// Clock returns how far this node's clock differs from the store's, nil while that is not known.
func (e *encounters) Clock() *health.ClockStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.now()
	if now == nil {
		return nil
	}
	return &health.ClockStatus{Difference: now.difference.Seconds(), Uncertainty: now.uncertainty.Seconds(),
		Off: now.off()}
}

// isPut reports whether a nonce is in the store, and need not be put again for the clock.
func (e *encounters) isPut(nonce string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.met == nonce && !e.clock.due()
}

// noncePut records that a nonce was put.
func (e *encounters) noncePut(nonce string, s *sent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.met, e.clock.here, e.clock.again = nonce, s, false
}

// beaconPut records that the beacon was put.
func (e *encounters) beaconPut(s *sent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.beacon = s
}

// listed records the nonces of a listing, with the node by nonce.
func (e *encounters) listed(l listing, nonces map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nonces = nonces
	e.clock.listed(l, nonces[e.met] != "")
	if nonces[e.met] == "" { // another process of this name, perhaps a clone, has overwritten ours
		e.met = ""
	}
}
