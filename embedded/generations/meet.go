package generations

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
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
	s, err := r.overwrite(ctx, r.HereName(who), presence{who, nonce})
	if err != nil {
		return fmt.Errorf("put %s into the store: %w", r.HereName(who), err)
	}
	r.noncePut(nonce, s)
	return nil
}

// meetAll reads the nonces of all nodes, and ignores one that cannot be read. One younger than the resolution of the
// store's times is read again the next time, because a restarted process may have replaced it. The nodes in expect are
// asked for by name, because a listing may be outdated.
func (r *Records) meetAll(ctx context.Context, l listing, expect ...string) {
	nonces, here := map[string]string{}, slices.Clone(l.here)
	for _, who := range expect {
		here = append(here, snapshot.Object{Name: r.HereName(who)})
	}
	for _, o := range here {
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

// Shine writes the beacon.
func (r *Records) Shine(ctx context.Context, b coordinator.Beacon) error {
	s, err := r.overwrite(ctx, r.BeaconName(), b)
	if err != nil {
		return err
	}
	r.beaconPut(s)
	return nil
}

// StoredBeacon is a beacon, with the time at which the store received it.
type StoredBeacon struct {
	coordinator.Beacon
	At time.Time
}

// Beacon reads the beacon, nil without one, and returns its age by the store's own clock. To learn the store's
// time, it puts an object in the name of the caller.
func (r *Records) Beacon(ctx context.Context, who string) (b *StoredBeacon, age time.Duration, err error) {
	if err := r.Meet(ctx, who, rand.Text()); err != nil {
		return nil, 0, err
	}
	l, err := r.list(ctx)
	if err != nil {
		return nil, 0, err
	}
	b, err = r.readBeacon(ctx, l)
	return b, l.newest.Sub(l.beacon.Modified), err
}

// LastBeacon reads the beacon, nil without one.
func (r *Records) LastBeacon(ctx context.Context) (*StoredBeacon, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	return r.readBeacon(ctx, l)
}

// readBeacon reads the beacon, nil without one. It returns damaged content as the beacon of an unknown leader. A
// beacon is advice: damage must neither hinder a command nor make it believe that the cluster is dead.
func (r *Records) readBeacon(ctx context.Context, l listing) (*StoredBeacon, error) {
	if l.beacon.Name == "" {
		return nil, nil
	}
	unknown := coordinator.Beacon{Stand: plan.Stand{Node: "unknown (" + l.beacon.Name + " in the store is damaged)"}}
	if l.beacon.Size > MaxRecord {
		return &StoredBeacon{unknown, l.beacon.Modified}, nil
	}
	data, err := snapshot.ReadObject(ctx, r.Store, l.beacon.Name, MaxRecord)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s in the store: %w", l.beacon.Name, err)
	}
	b := StoredBeacon{At: l.beacon.Modified}
	if json.Unmarshal(data, &b.Beacon) != nil || !plain(b.Record, b.Node, b.Slot, b.Disk, b.Address) || b.Node == "" ||
		b.Revision < 0 {
		b.Beacon = unknown
	}
	return &b, nil
}

// plain reports whether texts from the store look like holdfast's: short, and printable on any terminal.
func plain(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		return len(text) > 255 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
	})
}
