package node

import (
	"context"
	"errors"
	"slices"
	"testing"

	"holdfast/cmd/config"
	"holdfast/volume"
)

// asked is a provider that keeps what it is asked for.
type asked struct {
	volume.Provider
	want volume.Want
}

func (a *asked) Claim(_ context.Context, want volume.Want) (volume.Claim, error) {
	a.want = want
	return nil, volume.None{Why: "a test"}
}

func TestAdoptReachesTheVolumesAndThePlan(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		cfg := config.Default()
		cfg.Cluster.Adopt = adopt
		a := &asked{}
		_, err := volumes{a, cfg.Cluster.Name, cfg.Cluster.Adopt}.Claim(t.Context(), []string{"a"}, nil, nil)
		if errors.Is(err, volume.ErrNoneFree) || err == nil {
			t.Fatalf("got %v, want the coordinator's error", err)
		}
		if a.want.Adopt != adopt || a.want.Cluster != cfg.Cluster.Name || Wanted(cfg).Adopt != adopt {
			t.Errorf("cluster.adopt %v: got %+v, and %v for the plan", adopt, a.want, Wanted(cfg).Adopt)
		}
	}
}

// If the service has a state directory, the volume is remembered there as well, in a file for each cluster and node.
func TestMarkerOutlivesTheDataDir(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster.Name, cfg.Node.Name, cfg.Node.DataDir = "main", "n1", "/data"
	const own, state = "/data/last-volume.json", "/state/main.n1.last-volume.json"
	for states, want := range map[string][]string{"": {own}, "/state": {own, state}, "/state:/more": {own, state}} {
		if t.Setenv("STATE_DIRECTORY", states); !slices.Equal(markerFiles(cfg), want) {
			t.Errorf("state %q: got %s, want %s", states, markerFiles(cfg), want)
		}
	}
}
