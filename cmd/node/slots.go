package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/durable"
	"holdfast/volume"
)

const (
	slotsWait  = time.Minute     // for the tags, if the slots of the last start are not known
	slotsBlind = 5 * time.Second // the same if they are known: a restart must not wait for the end of an outage
)

// WithSlots returns the configuration with the slots of the cluster. If cluster.slots is not set, it reads them from
// the tags of the volumes.
func WithSlots(ctx context.Context, cfg config.Config) (config.Config, error) {
	if !cfg.Cluster.TagSlots {
		return cfg, nil
	}
	ctx, cancel := context.WithTimeout(ctx, slotsWait)
	defer cancel()
	p, _, err := OpenProvider(ctx, cfg, prometheus.NewRegistry(), nil, zap.NewNop())
	if err != nil {
		return cfg, err
	}
	l, ok := p.(volume.SlotLister)
	if !ok {
		return cfg, fmt.Errorf("cluster.slots: must be set with volume.provider %s", cfg.Volume.Provider)
	}
	slots, err := l.Slots(ctx)
	if err != nil {
		return cfg, fmt.Errorf("cluster.slots is not set: %w", err)
	}
	return cfg.WithSlots(slots)
}

// knownSlots is WithSlots for a node that starts. It remembers the slots in node.data-dir, so that a member whose disk
// is here also starts during an outage of EC2, or with a wrong tag.
func knownSlots(ctx context.Context, cfg config.Config, lg *zap.Logger) (config.Config, error) {
	if !cfg.Cluster.TagSlots {
		return cfg, nil
	}
	file := filepath.Join(cfg.Node.DataDir, "slots.json")
	last := readSlots(file, cfg.Cluster.Name)
	wait := slotsWait
	if last != nil {
		wait = slotsBlind
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tagged, err := WithSlots(limited, cfg)
	switch {
	case err != nil && last != nil && ctx.Err() == nil:
		lg.Warn("the volumes' tags do not tell the slots; using the slots that they named at the last start",
			zap.Strings("slots", last), zap.Error(err))
		return cfg.WithSlots(last)
	case err != nil:
		return cfg, err
	}
	slots := tagged.Cluster.Slots
	lg.Info("took the slots from the volumes' tags", zap.Strings("slots", slots))
	if slices.Equal(slots, last) {
		return tagged, nil
	}
	if err := writeSlots(file, cfg.Cluster.Name, slots); err != nil { // a full disk must not keep the member down
		lg.Warn("could not remember the slots of the volumes' tags", zap.Error(err))
	}
	return tagged, nil
}

// slotsFile is the content of slots.json in node.data-dir.
type slotsFile struct {
	Cluster string   `json:"cluster"`
	Slots   []string `json:"slots"`
}

// readSlots returns the slots that the tags named at the last start, or nil if they are not known.
func readSlots(file, cluster string) []string {
	data, err := os.ReadFile(file)
	var f slotsFile
	if err != nil || json.Unmarshal(data, &f) != nil || f.Cluster != cluster {
		return nil
	}
	return f.Slots
}

func writeSlots(file, cluster string, slots []string) error {
	data, err := json.Marshal(slotsFile{cluster, slots})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(file, data)
	}
	return err
}

// keepSlots returns a load that keeps the slots of the running node if they come from tags. Tags are read at the start
// only.
func keepSlots(running *config.Loaded, load func() (*config.Loaded, error)) func() (*config.Loaded, error) {
	return func() (*config.Loaded, error) {
		l, err := load()
		if err == nil && l.Config.Cluster.TagSlots {
			l.Config.Cluster.Slots = running.Config.Cluster.Slots
		}
		return l, err
	}
}
