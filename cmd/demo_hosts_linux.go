package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"holdfast/cmd/config"
	"holdfast/integration/hosts"
	"holdfast/volume/volumetest/ec2test"
)

// hostsConfig is the template of a node's configuration on a host of the demo: what a master on AWS needs, and
// below it what makes up for this being no AWS.
const hostsConfig = `# Node {{.Name}} of "holdfast demo --hosts". On AWS this would be the whole file, the same on every master:
cluster: {name: {{.Cluster}}, slots: [{{join .Slots ", "}}]}
node: {address: auto, data-dir: {{path .Dir "data"}}, name: {{.Name}}}
volume:
  provider: ebs
  ebs:
    # Here a stand-in plays EC2 and the metadata service, and each host has devices of its own.
    endpoint: {{.URL}}
    metadata-endpoint: {{.URL}}
    device-root: {{path .Root}}
    state: {{path .State}}
    # In a hurry, for you to see it. On AWS: leave them out.
    settle: 1s
    scan-every: 2s
    takeover-after: 3s
snapshot: {store: {{path .Store}}}
# The hosts are a sealed network on this machine, for you to look into. On AWS: leave it out, and etcd has TLS (docs/tls.md).
tls: {insecure: true}
stop: {wait: 0s}
{{- if .Ports}}
# A second cluster on the same machines has ports of its own.
gossip: {listen: "{{.Address}}:{{port 7946}}"}
metrics: {listen: "{{.Address}}:{{port 2381}}"}
etcd:
  listen-client-urls: ["http://{{.Address}}:{{port 2379}}"]
  advertise-client-urls: ["http://{{.Address}}:{{port 2379}}"]
  listen-peer-urls: ["http://{{.Address}}:{{port 2380}}"]
{{- end}}
`

// hostsDemo is a region in small: hosts in network namespaces, and EC2's stand-in, which gives them block devices.
// It lives as long as the demo.
type hostsDemo struct {
	dir    string
	exe    string
	net    *hosts.Network
	cloud  *ec2test.Cloud
	server *ec2test.Server
	slots  []string

	mu       sync.Mutex
	machines []*demoMachine
	count    int // of instances there ever were
}

// demoMachine is where the node of one name runs: an instance, and after its end the one that replaces it.
type demoMachine struct {
	name, zone string
	instance   string
	root       string
	host       *hosts.Host
}

// clusterPorts are the clusters of the demo, and what is added to their ports.
var clusterPorts = []struct {
	name  string
	ports int
}{{"main", 0}, {"events", 1000}}

// runHostsDemo runs a cluster on hosts until a signal comes, and removes everything it made.
func runHostsDemo(ctx context.Context, o demoOptions, view demoView, say func(string, ...any)) (err error) {
	p, err := planDemo(demoOptions{nodes: o.nodes, slots: o.slots}, nil)
	if err != nil {
		return err
	}
	if err := hosts.Check(); err != nil {
		return fmt.Errorf("--hosts: %w; without it the demo needs nothing of the kind", err)
	}
	h := &hostsDemo{slots: p.Slots}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx); err != nil {
		return err
	}
	d := &demo{dir: h.dir, view: view, say: say, hints: h.hints, passing: true}
	for i := range p.Nodes {
		m := &demoMachine{name: fmt.Sprintf("n%d", i+1), zone: "eu-demo-1" + string(rune('a'+i%3))}
		h.machines = append(h.machines, m)
		if err := h.launch(m); err != nil {
			return err
		}
	}
	for i, c := range clusterPorts {
		if i > 0 && !o.events {
			break
		}
		if err := h.addVolumes(c.name); err != nil {
			return err
		}
		for _, m := range h.machines {
			child, err := h.child(m, c.name, c.ports)
			if err != nil {
				return err
			}
			if i == 0 {
				d.children = append(d.children, child)
			} else {
				d.beside = append(d.beside, child)
			}
		}
	}
	say("starting %s on %d hosts of their own, with EC2's stand-in at %s; everything is in %s, and removed at the end", p, p.Nodes, h.server.URL, h.dir)
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { h.reap(ctx) })
	defer watching.Wait()
	defer cancel()
	return d.run(ctx)
}

func (h *hostsDemo) open(ctx context.Context) (err error) {
	if h.exe, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if h.dir, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	if h.net, err = hosts.New(hosts.Options{}); err != nil {
		return fmt.Errorf("make the demo's network: %w", err)
	}
	loops, err := ec2test.NewLoops(filepath.Join(h.dir, "devices"), 0)
	if err != nil {
		return err
	}
	h.cloud = ec2test.New(ec2test.Options{Devices: loops, OwnOnly: true, AttachDelay: time.Second, DetachDelay: time.Second, InstanceDelay: time.Second})
	h.server, err = ec2test.Listen(h.cloud, h.net.Gateway().String()+":7575")
	return err
}

// close takes everything down again.
func (h *hostsDemo) close() error {
	var errs []error
	if h.net != nil {
		errs = append(errs, h.net.Close())
	}
	if h.server != nil {
		errs = append(errs, h.server.Close())
	}
	if h.cloud != nil {
		errs = append(errs, h.cloud.Close())
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}

// launch gives a machine a new instance, at a new address.
func (h *hostsDemo) launch(m *demoMachine) (err error) {
	h.count++
	m.instance = fmt.Sprintf("i-%017x", h.count)
	if m.host, err = h.net.Add(m.name); err != nil {
		return err
	}
	m.root, err = h.cloud.AddInstance(ec2test.Instance{ID: m.instance, Zone: m.zone, PrivateIP: m.host.Address().String()})
	return err
}

func (h *hostsDemo) addVolumes(cluster string) error {
	for i, slot := range h.slots {
		if _, err := h.cloud.AddVolume(ec2test.Volume{Zone: h.machines[i%len(h.machines)].zone, Size: 1, Encrypted: true,
			Tags: map[string]string{"holdfast:cluster": cluster, "holdfast:member": slot, "Name": slot + "." + cluster}}); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(h.dir, cluster+"-snapshots"), 0o700)
}

// child is the node of a cluster on a machine.
func (h *hostsDemo) child(m *demoMachine, cluster string, ports int) (*demoChild, error) {
	path := filepath.Join(h.dir, cluster+"-"+m.name)
	c := &demoChild{node: demoNode{name: m.name, config: path + ".yaml", log: path + ".log"}}
	write := func() error {
		text, err := h.configText(m, cluster, ports)
		if err == nil {
			err = os.WriteFile(c.node.config, []byte(text), 0o600)
		}
		return err
	}
	if err := write(); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", m.name, err)
	}
	loaded, err := config.Load(c.node.config, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", m.name, err)
	}
	c.node.cfg, c.node.address = loaded.Config, m.host.Address().String()
	c.command = func() (*exec.Cmd, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i, ok := h.cloud.Instance(m.instance); ok && i.State == "terminated" {
			if err := h.launch(m); err != nil { // as an auto-scaling group does
				return nil, err
			}
		}
		if err := write(); err != nil {
			return nil, err
		}
		return m.host.Command(context.Background(), h.exe, "run", "--config", c.node.config), nil
	}
	return c, nil
}

func (h *hostsDemo) configText(m *demoMachine, cluster string, ports int) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{"join": strings.Join, "path": yamlPath, "port": func(p int) int { return p + ports }}).Parse(hostsConfig)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{"Name": m.name, "Cluster": cluster, "Slots": h.slots, "Dir": filepath.Join(h.dir, cluster+"-"+m.name), "URL": h.server.URL,
		"Root": m.root, "State": filepath.Join(h.dir, m.name+"-state"), "Store": filepath.Join(h.dir, cluster+"-snapshots"), "Ports": ports, "Address": m.host.Address()})
	return b.String(), err
}

// reap ends the hosts of instances that are being terminated, until ctx ends. Their nodes are started again on
// others.
func (h *hostsDemo) reap(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		for _, m := range h.machines {
			if i, ok := h.cloud.Instance(m.instance); ok && i.State != "running" && i.State != "pending" {
				_ = m.host.Destroy() // again is fine; what cannot be killed keeps its device, and that is seen
			}
		}
		h.mu.Unlock()
	}
}

// hints are commands to try; the first is for all others.
func (h *hostsDemo) hints(s demoScene) []string {
	exe, config := quote(os.Args[0]), quote(filepath.Join(h.dir, "main-n1.yaml"))
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []string{exe + " status --config " + config}
	if pid := s.pids["n1"]; pid != 0 { // the metadata service knows hosts only
		all = append(all, fmt.Sprintf("nsenter -t %d -n %s volume list --config %s   # as n1 sees it", pid, exe, config))
	}
	if _, err := os.Stat(filepath.Join(h.dir, "events-n1.yaml")); err == nil {
		all = append(all, exe+" status --config "+quote(filepath.Join(h.dir, "events-n1.yaml"))+"   # the second cluster")
	}
	for _, n := range s.status.Nodes {
		for _, m := range h.machines {
			if m.name == n.Node && n.Etcd != nil && n.Etcd.Leader {
				all = append(all, fmt.Sprintf("curl -d '{\"ID\": \"%s\"}' %s/_control/terminate   # the instance of %s, the leader; another one replaces it", m.instance, h.server.URL, m.name))
			}
		}
	}
	return all
}
