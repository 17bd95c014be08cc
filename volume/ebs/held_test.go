package ebs

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// remounting is a host on which a mount takes some time, during which the volume is not mounted.
type remounting struct {
	Disks
	Files
	gone atomic.Bool // while it is remounted
	lost atomic.Bool // it is not mounted any more, and not being remounted
	grow error
}

func (h *remounting) Mount(context.Context, string, string, bool) error {
	h.gone.Store(true)
	time.Sleep(5 * volume.WatchEvery)
	h.gone.Store(false)
	return nil
}

func (h *remounting) Grow(context.Context, string, string) error { return h.grow }

func (h *remounting) Check(string, string, string) error {
	if h.gone.Load() || h.lost.Load() {
		return errors.New("it is not mounted any more")
	}
	return nil
}

func (h *remounting) Devices() (map[string]string, error) {
	return map[string]string{"vol-1": "/dev/nvme1n1"}, nil
}
func (h *remounting) SetAside(string) error                  { return nil }
func (h *remounting) Identify(string, volume.Identity) error { return nil }
func (h *remounting) Fence(string) error                     { return nil }

// A filesystem that cannot grow is used at the size that it has. An operator is told until a later start grows it.
func TestGrowthThatFails(t *testing.T) {
	h := &remounting{grow: errors.New("it lacks a capability")}
	p := New(Config{}, Node{}, nil, Host{Disks: h}, service{}, nil, zap.NewNop())
	c := newClaim(p, "vol-1", volume.Identity{Slot: "a", Volume: "vol-1"})
	for _, want := range []string{"vol-1 could not grow, and is used at the size that it has: it lacks a capability", ""} {
		if err := c.mount(t.Context(), false); err != nil {
			t.Errorf("got %v, want it mounted", err)
		}
		if got := strings.Join(p.Problems(), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got the problems %q, want %q", got, want)
		}
		h.grow = nil
	}
	h.grow = errors.New("it cannot be written to")
	if err := c.mount(t.Context(), true); err != nil || p.Problems() != nil {
		t.Errorf("mounted read-only: got %v and %v, want that it is not grown", err, p.Problems())
	}
}

// A foreign filesystem is mounted read-only until its content is set aside. Then it is remounted, which is no loss of
// the volume.
func TestSetAsideIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &remounting{}
		p := New(Config{}, Node{}, nil, Host{Devices: h.Devices, Disks: h, Files: h}, service{}, nil, zap.NewNop())
		c := newClaim(p, "vol-1", volume.Identity{Slot: "a", Volume: "vol-1"})
		c.mounted = true
		c.Known(c.Want, "it holds data of somebody")
		ended := make(chan error, 1)
		go func() {
			for {
				time.Sleep(volume.WatchEvery)
				if err := c.look(); err != nil {
					ended <- err
					return
				}
			}
		}()
		if err := c.SetAside(t.Context()); err != nil || c.Mismatch() != "" {
			t.Errorf("set aside: got %v, and %q", err, c.Mismatch())
		}
		select {
		case err := <-ended:
			t.Fatalf("while its content was set aside: %v", err)
		default:
		}
		h.lost.Store(true)
		if err := <-ended; err == nil {
			t.Error("a loss was not seen afterwards")
		}
	})
}

// Devices that cannot be listed are no evidence that one of them is gone.
func TestUnknownDevicesAreNoLoss(t *testing.T) {
	err := errors.New("too many open files")
	devices := func() (map[string]string, error) { return nil, err }
	p := New(Config{}, Node{}, nil, Host{Devices: devices}, service{}, nil, zap.NewNop())
	c := newClaim(p, "vol-1", volume.Identity{Slot: "a", Volume: "vol-1"}) // not mounted, because it does not match
	if got := c.look(); got != nil {
		t.Errorf("got %v, want no evidence", got)
	}
	if err = nil; c.look() == nil {
		t.Error("its device is gone, and that is not seen")
	}
}

// The record tag is written again whenever it is missing, until an operator gives the cluster up: then the claim
// removes what it has written, and nothing else, because any other tag is evidence of a cluster.
func TestRecordTag(t *testing.T) {
	const theirs, ours, next = "main@1-theirs", "main@1-ours", "main@1-next"
	cloud := tagged{tags: map[string]string{TagRecord: theirs}}
	p := New(Config{}, Node{}, cloud, Host{}, service{}, nil, zap.NewNop())
	c := newClaim(p, "vol-1", volume.Identity{Slot: "a", Volume: "vol-1"})
	for i, s := range []struct {
		record, now string
		want        string
	}{
		{"", theirs, theirs}, {ours, theirs, ours}, {ours, "", ours}, {"", ours, ""}, {"", "", ""}, {"", theirs, theirs},
		{"", ours, ""}, {next, "", next}, {next, ours, next}, {"", ours, ours}, {"", next, ""},
	} {
		cloud.tags[TagRecord] = s.now
		c.SetRecord(s.record)
		c.reviewOwn(t.Context(), Volume{ID: "vol-1", Tags: maps.Clone(cloud.tags)})
		if got := cloud.tags[TagRecord]; got != s.want {
			t.Errorf("step %d: record %q, tag %q: got the tag %q, want %q", i, s.record, s.now, got, s.want)
		}
	}
}
