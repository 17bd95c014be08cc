package integration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/integration/hosts"
	"holdfast/volume/volumetest/ec2test"
)

// Site imitates a region of AWS: machines with their own addresses, mounts and block devices, on a network that can be
// cut, and a stand-in for EC2 that attaches real loop devices to them.
type Site struct {
	EC2      *ec2test.Cloud
	Net      *hosts.Network
	Machines []*Machine // including those that are terminated
	Dir      string

	t      testing.TB
	binary string
	server *ec2test.Server
	at     string // address of the server

	mu     sync.Mutex
	double []string          // volumes that two machines had mounted at the same time
	epochs map[string]uint64 // the last seen epoch of each volume's claim
}

// Machine is an EC2 instance.
type Machine struct {
	Name string // of the host
	ID   string // of the instance
	Zone string
	Host *hosts.Host

	root string // a directory with the machine's devices, in the place of /
	dir  string // of its processes
	site *Site
	gone bool
}

// NewSite makes a site without machines. When the test ends, everything is removed. The test fails if a volume was
// ever attached to, or mounted by, two machines at the same time. Unless any is set, an instance may attach and detach
// volumes only for itself, as with the policy in docs/aws.md.
func NewSite(t testing.TB, binary string, any bool) *Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{Dir: dir, t: t, binary: binary, epochs: map[string]uint64{}}
	t.Cleanup(func() {
		if !t.Failed() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("remove the site's directory: %v", err)
			}
		}
	})
	loops, err := ec2test.NewLoops(filepath.Join(dir, "devices"), 32)
	if err != nil {
		t.Fatal(err)
	}
	s.EC2 = ec2test.New(ec2test.Options{
		Devices: loops, OwnOnly: !any, PageSize: 2,
		AttachDelay: 300 * time.Millisecond, DetachDelay: 300 * time.Millisecond, InstanceDelay: 200 * time.Millisecond,
	})
	t.Cleanup(func() {
		if err := s.EC2.Close(); err != nil {
			t.Error(err)
		}
	})
	// The hosts must end before the stand-in: their mounts keep its devices.
	if s.Net, err = hosts.New(hosts.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Net.Close(); err != nil {
			t.Error(err)
		}
	})
	s.at = s.Net.Gateway().String() + ":7575"
	s.Up()
	t.Cleanup(s.Down)
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		s.verify()
	})
	return s
}

// Down makes EC2 and the metadata service refuse connections; Up ends it.
func (s *Site) Down() {
	if s.server != nil {
		_ = s.server.Close() // an error from breaking connections does not matter
		s.server = nil
	}
}

// Up makes EC2 and the metadata service answer.
func (s *Site) Up() {
	s.t.Helper()
	if s.server != nil {
		return
	}
	var err error
	if s.server, err = ec2test.Listen(s.EC2, s.at); err != nil {
		s.t.Fatal(err)
	}
}

// Launch starts an instance in a zone.
func (s *Site) Launch(zone string) *Machine {
	s.t.Helper()
	n := len(s.Machines) + 1
	m := &Machine{Name: fmt.Sprintf("n%d", n), ID: fmt.Sprintf("i-%017x", n), Zone: zone, site: s,
		dir: filepath.Join(s.Dir, fmt.Sprintf("n%d", n))}
	var err error
	if m.Host, err = s.Net.Add(m.Name); err != nil {
		s.t.Fatal(err)
	}
	if m.root, err = s.EC2.AddInstance(ec2test.Instance{ID: m.ID, Zone: zone,
		PrivateIP: m.Host.Address().String()}); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Machines = append(s.Machines, m)
	return m
}

// Terminate ends an instance for good, with its processes, mounts and attachments.
func (m *Machine) Terminate() {
	m.site.t.Helper()
	m.site.mu.Lock()
	m.gone = true
	m.site.mu.Unlock()
	if err := m.Host.Destroy(); err != nil {
		m.site.t.Fatal(err)
	}
	if err := m.site.EC2.TerminateInstance(m.ID); err != nil {
		m.site.t.Fatal(err)
	}
}

// Halt stops an instance as by a power cut. It keeps its volumes, and Boot can start it again.
func (m *Machine) Halt() {
	m.site.t.Helper()
	if err := errors.Join(m.Host.Reboot(), m.site.EC2.StopInstance(m.ID)); err != nil {
		m.site.t.Fatal(err)
	}
}

// Boot starts a halted instance, on which nothing runs yet.
func (m *Machine) Boot() {
	m.site.t.Helper()
	if err := m.site.EC2.StartInstance(m.ID); err != nil {
		m.site.t.Fatal(err)
	}
}

// Move gives another address to a machine, on which no node may run, and to the nodes that are placed on it.
func (c *Cluster) Move(m *Machine, to netip.Addr) {
	c.t.Helper()
	if err := errors.Join(m.Host.SetAddress(to), m.site.EC2.SetPrivateIP(m.ID, to.String())); err != nil {
		c.t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if n.Machine == m {
			n.Address = to.String()
		}
	}
}

// Cluster makes a cluster with a node on each machine. Nothing runs yet. ports is added to the usual ports, for a
// second cluster on the same machines.
func (s *Site) Cluster(name string, slots []string, ports int, machines ...*Machine) *Cluster {
	s.t.Helper()
	c := &Cluster{
		Name: name, Slots: slots, Dir: s.Dir, Store: filepath.Join(s.Dir, name+"-store"), t: s.t, binary: s.binary, site: s,
		ports: ports,
		keys:  map[string]any{},
	}
	if err := os.Mkdir(c.Store, 0o700); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range machines {
		c.Place(m)
	}
	s.t.Cleanup(c.report)
	return c
}

// Place adds a node on a machine to a cluster of a site. A second node on the same machine gets another name and
// directory; the story must choose its ports.
func (c *Cluster) Place(m *Machine) *Node {
	c.t.Helper()
	name, dir := m.Name, filepath.Join(m.dir, c.Name)
	if slices.ContainsFunc(c.Nodes, func(n *Node) bool { return n.Machine == m }) {
		name, dir = name+"-2", dir+"-2"
	}
	n := &Node{Name: name, Address: m.Host.Address().String(), Dir: dir, Data: filepath.Join(dir, "data"),
		Keys: map[string]any{}, Machine: m, Host: m.Host, c: c}
	n.Root = filepath.Join(n.Data, "mounts")
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.Nodes = append(c.Nodes, n)
	return n
}

// keysOnSite returns the configuration of a node on a site. It has no seeds.
func (n *Node) keysOnSite() map[string]any {
	c, m := n.c, n.Machine
	listen := func(port int) string { return fmt.Sprintf("%s:%d", n.Address, port+c.ports) }
	return map[string]any{
		"cluster.name": c.Name, "cluster.slots": c.Slots,
		"node.address": "auto", "node.name": n.Name, "node.data-dir": n.Data,
		"gossip.listen": listen(7946), "metrics.listen": listen(2390),
		"etcd.listen-client-urls":    []string{"http://" + listen(2379)},
		"etcd.advertise-client-urls": []string{"http://" + listen(2379)},
		"etcd.listen-peer-urls":      []string{"http://" + listen(2380)},
		"volume.provider":            "ebs", "volume.ebs.endpoint": "http://" + c.site.at,
		"volume.ebs.metadata-endpoint": "http://" + c.site.at,
		"volume.ebs.device-root":       m.root, "volume.ebs.state": filepath.Join(m.dir, "state"),
		"volume.ebs.settle": "300ms", "volume.ebs.scan-every": "1s", "volume.ebs.takeover-after": "2s",
		"snapshot.store": c.Store, "snapshot.every": "0s",
		"tls.insecure": true, "log.format": "json",
	}
}

// watch checks, until ctx ends, that no volume is mounted by two machines at the same time.
func (s *Site) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		mounted := map[string][]string{} // volume's file -> machines
		s.mu.Lock()
		machines := slices.DeleteFunc(slices.Clone(s.Machines), func(m *Machine) bool { return m.gone })
		s.mu.Unlock()
		for _, m := range machines {
			mounts, err := m.Host.Mounts()
			if err != nil {
				continue // the host is being destroyed
			}
			for _, i := range mounts {
				if file := backing(i.Major, i.Minor); strings.HasPrefix(file, s.Dir) && !slices.Contains(mounted[file], m.Name) {
					mounted[file] = append(mounted[file], m.Name)
				}
			}
		}
		s.mu.Lock()
		for file, who := range mounted {
			if len(who) > 1 {
				s.double = append(s.double, fmt.Sprintf("%s by %s", filepath.Base(file), strings.Join(who, " and ")))
			}
		}
		s.mu.Unlock()
	}
}

// verify checks what must hold in every story: no double mount or attachment, and no forced detach.
func (s *Site) verify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.double) > 0 {
		s.t.Errorf("volumes were mounted twice at a time: %s", strings.Join(slices.Compact(s.double), "; "))
	}
	for _, pair := range ec2test.Overlaps(s.EC2.Intervals()) {
		s.t.Errorf("%s was attached to %s and to %s at a time", pair[0].Volume, pair[0].Instance, pair[1].Instance)
	}
	for _, call := range s.EC2.Counts() {
		if call.Force {
			s.t.Errorf("%s forced a detach %d times", call.Caller, call.N)
		}
	}
}

// Risen reports whether the epoch of a volume's claim is positive, and not lower than at the last call.
func (s *Site) Risen(volume string, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.epochs[volume]
	s.epochs[volume] = epoch
	return epoch > 0 && epoch >= before
}

// report kills the nodes and, after a failure, prints their reports.
func (c *Cluster) report() {
	c.Kill()
	if c.t.Failed() {
		for _, n := range c.Nodes {
			c.t.Logf("%s\n", n.Report())
		}
		c.t.Logf("kept %s", c.Dir)
	}
}
