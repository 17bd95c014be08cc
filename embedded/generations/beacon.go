package generations

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Shine writes the beacon.
func (r *Records) Shine(ctx context.Context, b coordinator.Beacon) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	s, err := timed(r.BeaconName(), func() error { return r.Store.Put(ctx, r.BeaconName(), bytes.NewReader(data)) })
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

// Beacon reads the beacon, nil if there is none, and returns its age by the store's own clock. To learn the store's
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

// LastBeacon reads the beacon, nil if there is none.
func (r *Records) LastBeacon(ctx context.Context) (*StoredBeacon, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	return r.readBeacon(ctx, l)
}

// readBeacon reads the beacon, nil if there is none. It returns damaged content as the beacon of an unknown leader. A
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
