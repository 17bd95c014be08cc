package ebs

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// site is what every part of the protocol works with. Only me changes, once: when the process learns which instance it
// runs on.
type site struct {
	cfg    Config
	node   Node
	cloud  Cloud
	host   Host
	log    *zap.Logger
	step   func(string)        // called between the steps of a claim; stories end the process there
	random func(n int64) int64 // from 0 to n-1; the simulation has its own

	metadata Metadata
	mu       sync.Mutex // guards the change of me
	me       Self       // once it is known; a claim reads it after identify
}

// identify determines the instance, if it is not known yet.
func (s *site) identify(ctx context.Context) error {
	if s.self().Instance != "" {
		return nil
	}
	me, err := s.metadata.Identity(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.me.Instance == "" {
		s.me = me
	}
	return nil
}

// self returns the instance this process runs on, or the zero value until it is known.
func (s *site) self() Self {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.me
}

// one reads a single volume.
func (s *site) one(ctx context.Context, id string) (Volume, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cloudLook) // the caller has more to do than wait for EC2
	defer cancel()
	volumes, err := s.cloud.Volumes(ctx, Query{IDs: []string{id}})
	if err != nil {
		return Volume{}, false, err
	}
	for _, v := range volumes {
		if v.ID == id {
			return v, true, nil
		}
	}
	return Volume{}, false, nil
}

// dir returns where the volume of a slot is mounted.
func (s *site) dir(slot string) string { return filepath.Join(s.cfg.MountRoot, slot) }

// ours reports whether a mount point belongs to this provider.
func (s *site) ours(dir string) bool {
	return filepath.Dir(filepath.Clean(dir)) == filepath.Clean(s.cfg.MountRoot)
}

// jitter changes a duration by up to a quarter, up or down.
func (s *site) jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - d/4 + time.Duration(s.random(int64(d/2)))
}

// pause waits for a duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// none returns the normal answer to a standby.
func none(format string, args ...any) error {
	return volume.None{Why: fmt.Sprintf(format, args...)}
}
