package volume

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Stall says since when a disk has not answered, which is no evidence of its loss.
func Stall(disk string, since time.Time) string {
	return fmt.Sprintf("%s has not answered for %s; it is not lost, the member waits with it", disk,
		time.Since(since).Round(time.Second))
}

// WatchEvery is how often a claim looks for evidence on its machine that its volume is lost.
const WatchEvery = 500 * time.Millisecond

// Hold is what the claims of every provider have in common: whose the volume is, and whether it is lost or released.
// A claim embeds one. Its methods may be called from several goroutines and do no I/O.
type Hold struct {
	// Want is what the volume should be, without disk and epoch. It never changes.
	Want Identity

	end  func() // closes done, once
	done chan struct{}

	mu       sync.Mutex // guards what follows
	identity Identity
	mismatch string
	lost     error
}

// NewHold returns the hold of a volume. What it should be is all that is known of it.
func NewHold(want Identity) *Hold {
	h := &Hold{Want: want, identity: want, done: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.done) })
	return h
}

// Volume implements Claim.
func (h *Hold) Volume() Identity {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.identity
}

// Mismatch implements Claim.
func (h *Hold) Mismatch() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mismatch
}

// Known sets what was found on the volume: its identity, or with a mismatch the one that it should have.
func (h *Hold) Known(id Identity, mismatch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity, h.mismatch = id, mismatch
}

// End says that the volume is being released: Watch returns, and what is seen from now on is no loss.
func (h *Hold) End() { h.end() }

// Released reports whether End was called.
func (h *Hold) Released() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// Lost is the error that Lose returned, nil while the volume is not lost.
func (h *Hold) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Lose remembers that nothing may be written any more. It returns the evidence wrapped in ErrLost; nil after End, when
// what was seen is what came after this claim.
func (h *Hold) Lose(evidence error) error {
	if h.Released() {
		return nil
	}
	err := fmt.Errorf("%w: slot %s: %w", ErrLost, h.Want.Slot, evidence)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = err
	return err
}

// Evidence is the loop of a claim's Watch: it waits for evidence that the volume is lost, for which it calls look every
// [WatchEvery] and listens to elsewhere. nil from either is no evidence; look must return soon. It returns nil when ctx
// ends or the claim is released.
func (h *Hold) Evidence(ctx context.Context, look func() error, elsewhere <-chan error) error {
	ticker := time.NewTicker(WatchEvery)
	defer ticker.Stop()
	for {
		var evidence error
		select {
		case <-ctx.Done():
			return nil
		case <-h.done:
			return nil
		case evidence = <-elsewhere:
		case <-ticker.C:
			evidence = look()
		}
		if evidence != nil {
			return evidence
		}
	}
}

// SetAsideWith is the core of a claim's SetAside: move moves what is on the volume aside, and then identify writes a
// fresh identity with the epoch of this claim. When one of them fails the volume has a Mismatch, and all can be
// repeated.
func (h *Hold) SetAsideWith(epoch uint64, move func() error, identify func(Identity) error) error {
	// Meanwhile there is no identity on the volume, which is no evidence of its loss.
	h.mu.Lock()
	if h.mismatch == "" {
		h.mismatch = "what is on it was to be set aside, and that has not ended"
	}
	h.mu.Unlock()
	if err := move(); err != nil {
		return err
	}
	id := h.Want.Fresh()
	id.Epoch = epoch
	if err := identify(id); err != nil {
		return err
	}
	h.Known(id, "")
	return nil
}
