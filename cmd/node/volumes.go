package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// provider is any kind of volumes.
type provider interface {
	volume.Provider
	Problems() []string // for status; it waits for nothing
}

// OpenProvider makes the provider that the configuration names. The second result is the same one when it
// is EBS's, which can tell more about itself.
func OpenProvider(ctx context.Context, cfg config.Config, reg prometheus.Registerer, step func(string),
	lg *zap.Logger) (provider, *ebs.Provider, error) {
	if cfg.Volume.Provider != volume.ProviderEBS {
		return volume.NewLocal(cfg.Volume.Local, cfg.Node.Name, markerFiles(cfg), lg), nil, nil
	}
	cloud, err := OpenEC2(ctx, cfg, reg, lg)
	if err != nil {
		return nil, nil, err
	}
	p, err := OpenEBS(cfg, cloud, step, lg)
	if err != nil {
		return nil, nil, err
	}
	return p, p, nil
}

// stateDirectory is systemd's variable with the directory that the unit names in StateDirectory=, the first of several.
const stateDirectory = "STATE_DIRECTORY"

// markerFiles is where a node remembers the local volume it held last: in its data directory, and where no change of
// the configuration moves it, if there is such a place. A new node.data-dir on every node would take the volumes, their
// memory and the default store away at once, and the cluster would be founded again.
func markerFiles(cfg config.Config) []string {
	files := []string{config.Abs(filepath.Join(cfg.Node.DataDir, volume.MarkerName))}
	if dir, _, _ := strings.Cut(os.Getenv(stateDirectory), ":"); dir != "" {
		files = append(files, filepath.Join(dir, cfg.Cluster.Name+"."+cfg.Node.Name+"."+volume.MarkerName))
	}
	return files
}

// OpenEBS makes the provider of the volumes in a cloud.
func OpenEBS(cfg config.Config, cloud *ebs.EC2, step func(string), lg *zap.Logger) (*ebs.Provider, error) {
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, fmt.Errorf("node.address: %w", err)
	}
	listen, err := netip.ParseAddrPort(cfg.Gossip.Listen)
	if err != nil {
		return nil, fmt.Errorf("gossip.listen: %w", err)
	}
	node := ebs.Node{Name: cfg.Node.Name, Cluster: cfg.Cluster.Name, Address: netip.AddrPortFrom(address, listen.Port())}
	p := ebs.New(cfg.Volume.EBS, node, cloud, OpenMachine(cfg, lg).Host(), cloud.Identity, step, lg)
	p.Follow(cloud.Lifecycle)
	return p, nil
}

// OpenEC2 makes the client of the cloud; the instance asks its metadata who it is.
func OpenEC2(ctx context.Context, cfg config.Config, reg prometheus.Registerer, lg *zap.Logger) (*ebs.EC2, error) {
	return ebs.NewEC2(ctx, cfg.Volume.EBS, reg, lg)
}

// OpenMachine is this machine, as volumes of a cloud need it. Nothing is touched yet.
func OpenMachine(cfg config.Config, lg *zap.Logger) *ebs.Machine {
	v := cfg.Volume.EBS
	return ebs.NewMachine(ebs.MachineConfig{
		DeviceRoot: v.DeviceRoot, FSType: v.Filesystem, JournalPath: filepath.Join(v.State, cfg.Cluster.Name+".json"),
	}, lg)
}

// claimStatus is how far the claim of a volume is, for those who ask.
func claimStatus(p *ebs.Provider) *health.ClaimStatus {
	if p == nil {
		return nil
	}
	now := p.Progress()
	return &health.ClaimStatus{State: now.State, Volume: now.Volume, Why: now.Why, Since: now.Since}
}

// volumes are the volumes of this cluster as the coordinator knows them.
type volumes struct {
	provider volume.Provider
	cluster  string
	adopt    bool
}

func volumesOf(cfg config.Config, p volume.Provider) volumes {
	return volumes{provider: p, cluster: cfg.Cluster.Name, adopt: cfg.Cluster.Adopt}
}

func (v volumes) Claim(ctx context.Context, slots, known []string,
	avoid map[string]string) (coordinator.Volume, error) {
	want := volume.Want{Cluster: v.cluster, Slots: slots, Known: known, Avoid: avoid, Adopt: v.adopt}
	c, err := v.provider.Claim(ctx, want)
	if none, ok := errors.AsType[volume.None](err); ok {
		return nil, fmt.Errorf("%w: %s", coordinator.ErrNoVolume, none.Why)
	}
	if err != nil {
		return nil, err
	}
	return held{c}, nil
}

// Witnesses are what a cloud's volumes bear; a directory bears nothing that others see.
func (v volumes) Witnesses() []plan.Witness {
	b, ok := v.provider.(volume.RecordLister)
	if !ok {
		return nil
	}
	borne := b.Records()
	var all []plan.Witness
	for _, id := range slices.Sorted(maps.Keys(borne)) {
		all = append(all, plan.Witness{Volume: id, Token: borne[id]})
	}
	return all
}

// Standby is the zone of a node that waits for one of a cloud's volumes.
func (v volumes) Standby() string {
	if p, ok := v.provider.(*ebs.Provider); ok {
		return p.Standby()
	}
	return ""
}

// held is a volume that this node holds.
type held struct{ volume.Claim }

func (h held) SetRecord(token string) {
	if b, ok := h.Claim.(volume.RecordSetter); ok {
		b.SetRecord(token)
	}
}

func (h held) Trouble() (mismatch, missing string) {
	mismatch = h.Mismatch()
	if m, ok := h.Claim.(volume.MissingReporter); ok {
		missing = m.Missing()
	}
	return mismatch, missing
}

func (h held) Identity() plan.Volume {
	id := h.Volume()
	is := plan.Volume{Slot: id.Slot, ID: id.Volume, Disk: id.Disk, Epoch: id.Epoch, Path: h.Path()}
	if l, ok := h.Claim.(volume.Locker); ok {
		is.Lock = l.Lock()
	}
	return is
}

func (h held) SetAllAside(ctx context.Context) error {
	if a, ok := h.Claim.(volume.SetAsider); ok {
		return a.SetAside(ctx)
	}
	return errors.New("the content of this kind of volume cannot be set aside")
}

func (h held) Release(ctx context.Context, how coordinator.Release) error {
	if how != coordinator.Yield {
		return h.Claim.Release(ctx, how == coordinator.Drop)
	}
	if y, ok := h.Claim.(volume.Yielder); ok {
		return y.Yield(ctx)
	}
	return errors.New("this kind of volume cannot be yielded")
}
