package ebs

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// claimed is a read-only cloud with one volume whose tag names its holder.
type claimed struct {
	Cloud
	tag, value string
}

func (c claimed) Volumes(context.Context, Query) ([]Volume, error) {
	return []Volume{{ID: "vol-1", Tags: map[string]string{c.tag: c.value}}}, nil
}

// A process that claims nothing finds seeds in the tags after Observe.
func TestObserverFindsSeeds(t *testing.T) {
	cfg := Default()
	tag := claimTag{Epoch: 1, Instance: "i-1", Node: "n1", Nonce: newNonce(), Phase: volume.PhaseHeld, Since: time.Unix(1700000000, 0).UTC(),
		Address: netip.MustParseAddrPort("10.0.0.1:7946")}
	p := New(cfg, Node{Name: "x", Cluster: "main"}, claimed{tag: cfg.ClaimTag, value: tag.String()}, Host{}, service{},
		nil, zap.NewNop())
	if got := p.Seeds(t.Context(), true); len(got) != 0 {
		t.Errorf("before: got %v, want none: a node looks when it claims", got)
	}
	p.Observe()
	if got, want := p.Seeds(t.Context(), true), []string{"10.0.0.1:7946"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
