package cmd

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// provider is any kind of volumes.
type provider interface {
	volume.Provider
	Problems() []string // for status; it waits for nothing
}

// openEBS makes the provider of the volumes in a cloud.
func openEBS(cfg config.Config, cloud *ebs.EC2, step func(string), lg *zap.Logger) (*ebs.Provider, error) {
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, fmt.Errorf("node.address: %w", err)
	}
	listen, err := netip.ParseAddrPort(cfg.Gossip.Listen)
	if err != nil {
		return nil, fmt.Errorf("gossip.listen: %w", err)
	}
	node := ebs.Node{Name: cfg.Node.Name, Cluster: cfg.Cluster.Name, Address: netip.AddrPortFrom(address, listen.Port())}
	p := ebs.New(cfg.Volume.EBS, node, cloud, openMachine(cfg, lg).Host(), cloud.Identity, step, lg)
	p.Follow(cloud.Lifecycle)
	return p, nil
}

func openMachine(cfg config.Config, lg *zap.Logger) *ebs.Machine {
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
