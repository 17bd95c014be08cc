package generations

import (
	"crypto/sha256"
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

// HereName is the name of the object in which a process says that it is there.
func (r *Records) HereName(node string) string {
	return fmt.Sprintf("%s%s%x.json", r.prefix(), hereDir, sha256.Sum256([]byte(node)))
}

// storeTick is more than the resolution of any store's times.
const storeTick = 2 * time.Second

// encounters are who was found in the store, and how their clocks and ours differ from the store's.
type encounters struct {
	mu     sync.Mutex
	met    string            // the nonce that was put
	nonces map[string]string // who put them, by nonce
	clock  clockwork
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
