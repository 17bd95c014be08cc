package volume

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Stall says since when a disk has not answered. That is no evidence that the disk is lost.
func Stall(disk string, since time.Time) string {
	return fmt.Sprintf("%s has not answered for %s; it is not lost, and the member waits for it", disk,
		time.Since(since).Round(time.Second))
}

// WatchEvery is how often a claim looks for evidence on its machine that its volume is lost.
const WatchEvery = 500 * time.Millisecond

// Hold is what the claims of every provider share: the volume's identity, and whether it is lost or released. A claim
// embeds one. Its methods may be called from several goroutines and do no I/O.
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

// NewHold returns the hold of a volume of which only the expected identity is known.
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

// Known sets the identity that was found on the volume or, with a mismatch, the one that it should have.
func (h *Hold) Known(id Identity, mismatch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity, h.mismatch = id, mismatch
}

// End says that the volume is being released: Watch returns, and nothing seen afterwards is a loss.
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

// Lost returns the error that Lose returned, or nil while the volume is not lost.
func (h *Hold) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Lose records that nothing may be written any more, and returns the evidence wrapped in ErrLost. After End it returns
// nil, because then another claim of the volume is expected.
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

// Evidence is the loop of a claim's Watch. It waits for evidence that the volume is lost: it calls look every
// [WatchEvery] and receives from elsewhere. nil from either is no evidence; look must return soon. Evidence returns nil
// when ctx ends or the claim is released.
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

// SetAsideWith is the core of a claim's SetAside: move moves the content aside, then identify writes a fresh identity
// with the epoch of this claim. If either fails, the volume has a Mismatch, and the call can be repeated.
func (h *Hold) SetAsideWith(epoch uint64, move func() error, identify func(Identity) error) error {
	// Meanwhile the volume has no identity; that is no evidence of its loss.
	h.mu.Lock()
	if h.mismatch == "" {
		h.mismatch = "its content was being set aside, and that was not completed"
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
