package ebs

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
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

// throttling is claimed, but refuses to answer until a time.
type throttling struct {
	claimed
	until time.Time
	asked *int
}

func (c throttling) Volumes(ctx context.Context, q Query) ([]Volume, error) {
	*c.asked++
	if time.Now().Before(c.until) {
		return nil, errors.New("throttled")
	}
	return c.claimed.Volumes(ctx, q)
}

// heldBy returns a process that claims nothing, and a cloud in which one volume is held by 10.0.0.1.
func heldBy(t *testing.T, wrap func(claimed) Cloud) *Provider {
	t.Helper()
	cfg := Default()
	tag := claimTag{Epoch: 1, Instance: "i-1", Node: "n1", Nonce: rand.Text(), Phase: volume.PhaseHeld,
		Since: time.Unix(1700000000, 0).UTC(), Address: netip.MustParseAddrPort("10.0.0.1:7946")}
	return New(cfg, Node{Name: "x", Cluster: "main"}, wrap(claimed{tag: TagClaim, value: tag.String()}), Host{},
		service{}, nil, zap.NewNop())
}

// A node that is alone while EC2 throttles asks less and less often, and soon finds the others when EC2 answers again:
// refused looks do not count as looks that found nobody.
func TestSeedsAfterThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		until := time.Now().Add(20 * time.Second)
		p := heldBy(t, func(c claimed) Cloud { return throttling{c, until, &asked} })
		p.Observe()
		for len(p.Seeds(t.Context(), true)) == 0 {
			time.Sleep(3 * time.Second)
		}
		if late := time.Since(until); late > 25*time.Second {
			t.Errorf("found %s after EC2 answered again", late)
		}
		if asked > 8 {
			t.Errorf("asked %d times", asked)
		}
		// What was found is outdated. As after any other look, the next one is 5 s later, and not a minute.
		before := asked
		time.Sleep(aloneFirst)
		if p.Seeds(t.Context(), true); asked != before+1 {
			t.Error("the refused looks have made the pause between looks longer")
		}
	})
}

// A process that claims nothing finds seeds in the tags after Observe.
func TestObserverFindsSeeds(t *testing.T) {
	p := heldBy(t, func(c claimed) Cloud { return c })
	if got := p.Seeds(t.Context(), true); len(got) != 0 {
		t.Errorf("before: got %v, want none: a node looks when it claims", got)
	}
	p.Observe()
	if got, want := p.Seeds(t.Context(), true), []string{"10.0.0.1:7946"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
