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

// presence is what a process says of itself for those that share the store.
type presence struct {
	Node  string `json:"node"`
	Nonce string `json:"nonce"`
}

const hereDir = "here/"

// storeTick is more than the resolution of any store's times.
const storeTick = 2 * time.Second

// Meet puts this process's nonce into the store, once, and again where it is not there any more, or the clock is to be
// measured.
func (r *Records) Meet(ctx context.Context, who, nonce string) error {
	if r.said(nonce) {
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
	r.say(nonce, s)
	return nil
}

// meetAll reads the nonces of all nodes. One that cannot be read is of nobody. One that is younger than the resolution
// of the store's times is read again: a process that began again may have replaced it.
func (r *Records) meetAll(ctx context.Context, l listing) {
	nonces := map[string]string{}
	put := map[string]string{} // by name
	for _, o := range l.here {
		var p presence
		if l.newest.Sub(o.Modified) < storeTick {
			o.Modified = time.Time{} // not kept
		}
		_, _, err := r.read(ctx, o, &p, func() error { return nil })
		if err == nil && p.Nonce != "" && o.Name == r.HereName(p.Node) {
			nonces[p.Nonce] = p.Node
			put[o.Name] = p.Nonce
		}
	}
	r.listed(l, nonces, put)
}

// encounters are who was found in the store, and how their clocks and ours differ from the store's.
type encounters struct {
	mu     sync.Mutex
	met    string            // the nonce that was put
	nonces map[string]string // who put them, by nonce
	clock  clockwork
}

// Nonces are those of all nodes that were in the store at the last look.
func (e *encounters) Nonces() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nonces
}

// Clock tells how far this node's clock differs from the store's, nil while that is not known.
func (e *encounters) Clock() *health.ClockStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.now
	if now == nil {
		return nil
	}
	return &health.ClockStatus{Difference: now.difference.Seconds(), Uncertainty: now.uncertainty.Seconds(),
		Off: now.off()}
}

// said reports whether a nonce lies in the store, and need not be put again for the clock.
func (e *encounters) said(nonce string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.met == nonce && !e.clock.due()
}

// say notes that a nonce was put.
func (e *encounters) say(nonce string, s *sent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.met, e.clock.here, e.clock.again = nonce, s, false
}

// shone notes that the beacon was put.
func (e *encounters) shone(s *sent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.beacon = s
}

// listed notes the nonces of a listing, who put them, and what lies at which name.
func (e *encounters) listed(l listing, nonces, put map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nonces = nonces
	e.clock.listed(l, func(name string) bool { return put[name] == e.met })
	if nonces[e.met] == "" { // of another process of this name and address, which may be a clone
		e.met = ""
	}
}
