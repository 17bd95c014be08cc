package ebs

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"holdfast/volume"
)

// remounting is a host on which a mount takes a while, and the volume is not mounted meanwhile.
type remounting struct {
	Host
	gone atomic.Bool // for as long as it is mounted anew
	lost atomic.Bool // it is not mounted any more, and nobody does that
}

func (h *remounting) Mount(context.Context, string, string, bool) error {
	h.gone.Store(true)
	time.Sleep(5 * volume.WatchEvery)
	h.gone.Store(false)
	return nil
}

func (h *remounting) Check(string, string, string) error {
	if h.gone.Load() || h.lost.Load() {
		return errors.New("it is not mounted any more")
	}
	return nil
}

func (h *remounting) Devices() (map[string]string, error) {
	return map[string]string{"vol-1": "/dev/nvme1n1"}, nil
}

func (h *remounting) SetAside(string) error { return nil }

func (h *remounting) Identify(string, volume.Identity) error { return nil }

func (h *remounting) Fence(string) error { return nil }
