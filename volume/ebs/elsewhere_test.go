package ebs

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"go.uber.org/zap"
)

// attachments is a read-only cloud.
type attachments struct {
	Cloud
	volumes   []Volume
	instances []Instance
	asked     *[]string
	err       error
}

func (c attachments) Volumes(context.Context, Query) ([]Volume, error) { return c.volumes, nil }
func (c attachments) Instances(_ context.Context, ids []string) ([]Instance, error) {
	*c.asked = append(*c.asked, ids...)
	return c.instances, c.err
}

// The attachment of a volume tells where another program runs the member: at another, running instance.
func TestElsewhere(t *testing.T) {
	cfg := Default().For("main")
	at := netip.MustParseAddr
	volume := func(slot, state string, instances ...string) Volume {
		v := Volume{ID: "vol-" + slot, Tags: map[string]string{cfg.SlotTag: slot + "/a,b,c,d,e,f,g"}}
		for _, i := range instances {
			v.Attachments = append(v.Attachments, Attachment{Instance: i, State: state})
		}
		return v
	}
	twin := volume("e", Attached, "i-6")
	twin.ID = "vol-e2"
	cloud := attachments{asked: new([]string),
		volumes: []Volume{volume("a", Attached, "i-1"), volume("b", Attached, "i-2"), volume("c", Detaching, "i-3"), volume("d", Attached, ""),
			volume("e", Attached, "i-5"), twin, volume("f", Attached, "i-7"), volume("g", Attached, "i-8"), {ID: "vol-x", Attachments: []Attachment{{Instance: "i-9", State: Attached}}}},
		instances: []Instance{{ID: "i-1", State: InstanceRunning, Address: at("10.0.0.1")}, {ID: "i-2", State: InstanceRunning, Address: at("10.0.0.2")},
			{ID: "i-3", State: InstanceRunning, Address: at("10.0.0.3")}, {ID: "i-5", State: InstanceRunning, Address: at("10.0.0.5")},
			{ID: "i-6", State: InstanceRunning, Address: at("10.0.0.6")}, {ID: "i-7", State: InstanceStopped, Address: at("10.0.0.7")}, {ID: "i-8", State: InstanceRunning}}}
	provider := func() *Provider {
		p := New(Default(), Node{Name: "x", Cluster: "main"}, cloud, Host{}, service{self: Self{Instance: "i-1"}}, nil,
			zap.NewNop())
		if err := p.identify(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	cloud.instances = cloud.instances[1:] // this one is not asked about
	got, err := provider().Elsewhere(t.Context())
	if want := map[string]netip.Addr{"b": at("10.0.0.2")}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if slices.Contains(*cloud.asked, "i-1") || slices.Contains(*cloud.asked, "i-9") {
		t.Errorf("asked about %v", *cloud.asked)
	}
	cloud.err = errors.New("throttled")
	if got, err := provider().Elsewhere(t.Context()); !errors.Is(err, cloud.err) || got != nil {
		t.Errorf("EC2 does not answer: got %v, %v", got, err)
	}
}
