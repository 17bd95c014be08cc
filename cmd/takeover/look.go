package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/volume"
)

// lookTime limits a [Look].
const lookTime = 30 * time.Second

// Look gathers what [Judge] needs to know of this machine. dir is the directory of the data; if it is "", the
// configuration names it. Look changes nothing, and locks a database only for a moment.
func Look(ctx context.Context, l *config.Loaded, dir string) Seen {
	ctx, cancel := snapshot.Within(ctx, lookTime)
	defer cancel()
	s := Seen{Now: time.Now(), Refused: config.Errors(config.Refused(l))}
	s.Config, s.Slots = node.WithSlots(ctx, l.Config)
	store := make(chan Store, 1)
	go func() { store <- lookAtStore(ctx, s.Config, s.Now) }() // one that hangs takes no time from the rest
	s.look(ctx, dir)
	for _, e := range config.Endpoints(s.Config) {
		if inUse(e) {
			s.Taken = append(s.Taken, e)
		}
	}
	for _, v := range s.Volumes {
		if v.Origin == nil {
			continue
		}
		if v.Running != "" {
			s.Told, s.Silent = ask(ctx, s.Config)
		}
		s.Others = reach(ctx, s.Config, s.elsewhere(v))
	}
	s.Store = <-store
	return s
}

// look finds the volumes that the node would claim.
func (s *Seen) look(ctx context.Context, dir string) {
	if dir != "" {
		s.Volumes = []Volume{lookAt(config.Abs(dir), s.Config.Volume.Local.Slot, s.Config)}
		return
	}
	if s.Slots != nil {
		s.Unseen = errors.New("without the slots the volumes are not known")
		return
	}
	provider, cloud, err := node.OpenProvider(ctx, s.Config, prometheus.NewRegistry(), nil, zap.NewNop())
	var infos []volume.Info
	if err == nil {
		infos, err = provider.List(ctx, volume.Want{Cluster: s.Config.Cluster.Name, Slots: s.Config.Cluster.Slots,
			Adopt: true})
	}
	s.Unseen = err
	_, root := s.Config.VolumeDirectory()
	for _, i := range infos {
		path := filepath.Join(root, i.Slot)
		switch {
		case cloud != nil: // where etcd-manager mounts it
			path = filepath.Join(s.Config.Volume.EBS.DeviceRoot, "mnt", "master-"+i.Volume)
		case s.Config.Volume.Local.Directory != "":
			path = root
		}
		v := lookAt(path, i.Slot, s.Config)
		if i.State == volume.StateHeld {
			v.Held = i.Why
		}
		s.Volumes = append(s.Volumes, v)
	}
	if len(infos) == 0 && s.Unseen == nil {
		s.Volumes = []Volume{lookAt(root, s.Config.Volume.Local.Slot, s.Config)} // the plan names the empty directory
	}
}

// lookAt reads a volume. It works while an etcd runs on it.
func lookAt(path, slot string, cfg config.Config) Volume {
	v := Volume{Slot: slot, Path: path}
	disk := embedded.Disk{Names: node.MemberNames(cfg)}
	if v.Origin, v.Err = disk.Left(path); v.Origin == nil || v.Err != nil {
		return v
	}
	if v.Running, v.Err = disk.InUse(path); v.Err != nil {
		return v
	}
	if v.Running == "" {
		m := examine(path) // without compare: the other members' directories are on other machines
		v.Lists, v.Findings = m.Lists, m.Findings
		for i := range v.Findings {
			v.Findings[i].Code = codeData
		}
	}
	if v.Origin.Program == plan.EtcdManager {
		if state, err := embedded.ReadManagerState(path); err == nil { // otherwise Origin.Obstacle has the error
			for _, n := range state.Nodes {
				v.Names = append(v.Names, embedded.ListedMember{Name: n.Name, PeerURLs: n.PeerURLs})
			}
		}
	}
	return v
}

// lookAtStore reads what the backup store has of the cluster.
func lookAtStore(ctx context.Context, cfg config.Config, now time.Time) (s Store) {
	store, err := node.OpenStore(ctx, cfg)
	if err != nil {
		return Store{Err: err}
	}
	if s.Control, err = snapshot.ReadControl(ctx, store); err != nil {
		return Store{Err: err}
	}
	records := generations.New(store, cfg.Cluster.Name, nil)
	if s.Record, _, err = records.Current(ctx); err == nil {
		s.Returned, err = records.GivenBack(ctx, s.Record)
	}
	if err != nil {
		return Store{Err: err}
	}
	id := snapshot.Identity{Cluster: cfg.Cluster.Name}
	if s.Record != nil {
		id.Lineage = s.Record.Lineage()
	}
	all, err := snapshot.List(ctx, store, id)
	if err != nil {
		return Store{Err: err}
	}
	s.Newest = newest(all, now)
	return s
}

// inUse reports whether a program listens at an address of this machine.
func inUse(e config.Endpoint) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(e.Host, e.Port))
	if err == nil {
		l.Close()
	}
	return err != nil && !errors.Is(err, os.ErrPermission)
}

// elsewhere returns the peer URLs of the members on other machines, by slot.
func (s *Seen) elsewhere(v Volume) map[string]string {
	list := v.Names
	switch {
	case s.Told != nil:
		list = s.Told.Members
	case v.Lists != nil:
		list = v.Lists.V3
	}
	names, all := node.MemberNames(s.Config), map[string]string{}
	for _, m := range list {
		if m.ID != 0 && m.ID == v.Origin.Member || len(m.PeerURLs) != 1 {
			continue
		}
		if slot, ok := names.SlotOfURL(m.PeerURLs[0]); ok && slot != v.Slot {
			all[slot] = m.PeerURLs[0]
		}
	}
	return all
}

// addressesOf returns the addresses of a slot's member. Like the node, it prefers cluster.adopt-addresses to DNS.
func addressesOf(ctx context.Context, cfg config.Config, slot, host string) ([]netip.Addr, error) {
	if said := cfg.Cluster.Elders()[slot]; len(said) > 0 {
		return said, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	return found, err
}

// hostOf returns the host and the port in a URL.
func hostOf(text string) (host, port string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", "", err
	}
	return u.Hostname(), u.Port(), nil
}
