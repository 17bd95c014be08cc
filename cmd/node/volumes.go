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

// provider is a provider of volumes that also reports problems.
type provider interface {
	volume.Provider
	Problems() []string // for the status; does not block
}

// OpenProvider makes the provider that the configuration names. The second result is the same provider if it is for
// EBS, and nil otherwise.
func OpenProvider(ctx context.Context, cfg config.Config, reg prometheus.Registerer, step func(string),
	lg *zap.Logger) (provider, *ebs.Provider, error) {
	if cfg.Volume.Provider != volume.ProviderEBS {
		return volume.NewLocal(cfg.Volume.Local, cfg.Node.Name, markerFiles(cfg), lg), nil, nil
	}
	cloud, err := ebs.NewEC2(ctx, cfg.Volume.EBS, reg, lg)
	if err != nil {
		return nil, nil, err
	}
	p, err := OpenEBS(cfg, cloud, step, lg)
	if err != nil {
		return nil, nil, err
	}
	return p, p, nil
}

// stateDirectory is the variable in which systemd passes the directories of StateDirectory= (systemd.exec(5)).
const stateDirectory = "STATE_DIRECTORY"

// markerFiles returns the paths of the files in which a node remembers the local volume that it held last. One is in
// node.data-dir, the other in systemd's state directory, if there is one. A new node.data-dir on every node moves the
// volumes, the first file and the default store at once: without the second file the cluster would be founded again.
func markerFiles(cfg config.Config) []string {
	files := []string{config.Abs(filepath.Join(cfg.Node.DataDir, volume.MarkerName))}
	if dir, _, _ := strings.Cut(os.Getenv(stateDirectory), ":"); dir != "" {
		files = append(files, filepath.Join(dir, cfg.Cluster.Name+"."+cfg.Node.Name+"."+volume.MarkerName))
	}
	return files
}

// OpenEBS makes the provider of EBS volumes.
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
	machine := ebs.NewMachine(cfg.Volume.EBS, node.Cluster, lg)
	return ebs.New(cfg.Volume.EBS, node, cloud, machine.Host(), cloud, step, lg), nil
}

// claimStatus returns the state of the claim of an EBS volume, or nil with another provider.
func claimStatus(p *ebs.Provider) *health.ClaimStatus {
	if p == nil {
		return nil
	}
	return new(health.ClaimStatus(p.Progress()))
}

// volumes are the volumes of this cluster. It implements [coordinator.Volumes].
type volumes struct {
	provider volume.Provider
	cluster  string
	adopt    bool
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

// Witnesses returns the records in the tags of EBS volumes. Local volumes have none.
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

// Standby returns the zone of this node if it waits for an EBS volume, or "".
func (v volumes) Standby() string {
	if p, ok := v.provider.(*ebs.Provider); ok {
		return p.Standby()
	}
	return ""
}

// held is a volume that this node holds. It implements [coordinator.Volume].
type held struct{ volume.Claim }

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

func (h held) SetAllAside(ctx context.Context) error { return h.SetAside(ctx) }

func (h held) Release(ctx context.Context, how coordinator.Release) error {
	if how != coordinator.Yield {
		return h.Claim.Release(ctx, how == coordinator.Drop)
	}
	if y, ok := h.Claim.(volume.Yielder); ok {
		return y.Yield(ctx)
	}
	return errors.New("this kind of volume cannot be yielded")
}
