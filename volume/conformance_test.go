package volume_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"holdfast/volume"
	"holdfast/volume/volumetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	volumetest.Run(t, func(t *testing.T) volumetest.Fixture {
		root := filepath.Join(t.TempDir(), "volumes")
		cfg := volume.Default().Local
		cfg.Root, cfg.Scope, cfg.TakeoverAfter = root, volume.ScopeMachine, 300*time.Millisecond
		crash := func(c volume.Claim) {
			if err := c.Release(t.Context(), false); err != nil {
				t.Error(err)
			}
		}
		return volumetest.Fixture{
			Slots:         []string{"a", "b", "c"},
			TakeoverAfter: cfg.TakeoverAfter,
			Open: func(node string) volume.Provider {
				return volume.NewLocal(cfg, node, []string{filepath.Join(t.TempDir(), volume.MarkerName)}, zaptest.NewLogger(t))
			},
			Crash: crash,
			Gone:  crash,
			Lose: func(c volume.Claim) {
				if err := os.Rename(c.Path(), c.Path()+".gone"); err != nil {
					t.Error(err)
				}
			},
			Change: func(slot string, change func(dir string)) { change(filepath.Join(root, slot)) },
		}
	})
}
