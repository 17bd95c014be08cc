//go:build linux

// Demo shows on one machine what holdfast does on AWS. It makes hosts in network namespaces, each with an address and
// block devices of its own, a stand-in for EC2 that attaches these devices, and on each host a real node with EBS
// volumes. It redraws the output of `holdfast status` until Ctrl-C, and then removes everything.
//
// `make demo-hosts` runs it. It needs root, and is not part of the released binary.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holdfast/integration/hosts"
	"holdfast/volume/volumetest/ec2test"
)

const (
	cluster      = "main"
	volumeSize   = 4 // GiB: a restore needs 0.5 beside the data in use
	restartAfter = time.Second
	redrawEvery  = time.Second
	askWait      = 5 * time.Second // a node itself waits 2 s for the others
)

func main() {
	binary := flag.String("binary", "bin/holdfast", "the holdfast to run, as `make build` makes it")
	nodes := flag.Int("nodes", 3, "how many nodes, each on a host of its own, 1 to 9")
	flag.Parse()
	// Later signals have no effect, because everything must be removed at the end.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *nodes, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run shows the scene until ctx ends, and removes it in any case.
func run(ctx context.Context, binary string, nodes int, out *os.File) (err error) {
	if nodes < 1 || nodes > 9 {
		return fmt.Errorf("-nodes: must be 1 to 9, got %d", nodes)
	}
	if binary, err = filepath.Abs(binary); err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		return fmt.Errorf("-binary: %w; `make build` makes it", err)
	}
	if err := hosts.Check(); err != nil {
		return err
	}
	s := &scene{binary: binary, slots: []string{"a"}, out: out}
	if info, err := out.Stat(); err == nil {
		s.terminal = info.Mode()&os.ModeCharDevice != 0
	}
	if nodes >= 3 {
		s.slots = []string{"a", "b", "c"}
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		s.say("removing everything")
		cancel()
		running.Wait()
		if err = errors.Join(err, s.remove()); err == nil {
			s.say("everything is removed")
		}
	}()
	s.say("making %d hosts and %d volumes", nodes, len(s.slots))
	if err := s.make(nodes); err != nil {
		return err
	}
	for _, m := range s.machines {
		running.Go(func() { s.keep(ctx, m) })
	}
	s.watch(ctx)
	return nil
}

// scene imitates a region of AWS.
type scene struct {
	binary string
	dir    string // contains everything
	slots  []string
	net    *hosts.Network
	cloud  *ec2test.Cloud
	server *ec2test.Server

	mu       sync.Mutex // guards the rest, and the machines
	machines []*machine
	launched int // the number of instances so far
	out      io.Writer
	terminal bool
	said     []string // with a terminal: the last messages
	shown    string   // without a terminal: the last status
}

// machine is where the node of one name runs: on an instance and, after its end, on the one that replaces it.
type machine struct {
	name, zone string
	dir        string // of the node
	config     string // path
	instance   string
	root       string // of its devices
	host       *hosts.Host
}

// make makes the network, the cloud, the volumes, and an instance for each node.
func (s *scene) make(nodes int) (err error) {
	if s.dir, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	if err := os.Mkdir(s.path("snapshots"), 0o700); err != nil {
		return fmt.Errorf("make the store of backups: %w", err)
	}
	if s.net, err = hosts.New(hosts.Options{}); err != nil {
		return err
	}
	loops, err := ec2test.NewLoops(s.path("devices"), 1<<10) // the files are sparse
	if err != nil {
		return err
	}
	s.cloud = ec2test.New(ec2test.Options{Devices: loops, OwnOnly: true, AttachDelay: time.Second,
		DetachDelay: time.Second, InstanceDelay: time.Second})
	if s.server, err = ec2test.Listen(s.cloud, s.net.Gateway().String()+":7575"); err != nil {
		return err
	}
	zone := func(i int) string { return "eu-demo-1" + string(rune('a'+i%min(nodes, 3))) }
	for i, slot := range s.slots {
		if _, err := s.cloud.AddVolume(ec2test.Volume{Zone: zone(i), Size: volumeSize, Encrypted: true,
			Tags: map[string]string{"holdfast:cluster": cluster, "holdfast:member": slot,
				"Name": slot + "." + cluster}}); err != nil {
			return fmt.Errorf("make the volume of slot %s: %w", slot, err)
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		m := &machine{name: name, zone: zone(i), dir: s.path(name), config: s.path(name + ".yaml")}
		s.machines = append(s.machines, m)
		if err := s.launch(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// remove removes what make has made, also after an error of make. The hosts end first: their mounts keep the devices.
func (s *scene) remove() error {
	var errs []error
	if s.net != nil {
		errs = append(errs, s.net.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.cloud != nil {
		errs = append(errs, s.cloud.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// launch gives a machine a new instance with a new address and an empty directory, as an auto-scaling group does.
func (s *scene) launch(m *machine) (err error) {
	s.launched++
	m.instance = fmt.Sprintf("i-%017x", s.launched)
	if err := errors.Join(os.RemoveAll(m.dir), os.Mkdir(m.dir, 0o700)); err != nil {
		return fmt.Errorf("make the directory of %s: %w", m.name, err)
	}
	if m.host, err = s.net.Add(m.name); err != nil {
		return err
	}
	m.root, err = s.cloud.AddInstance(ec2test.Instance{ID: m.instance, Zone: m.zone, PrivateIP: m.host.Address().String()})
	if err != nil {
		return fmt.Errorf("launch instance %s: %w", m.instance, err)
	}
	text := fmt.Sprintf(config, m.name, cluster, strings.Join(s.slots, ", "), m.dir, s.path("snapshots"), s.server.URL,
		m.root, s.path(m.name+"-state"))
	if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration of %s: %w", m.name, err)
	}
	return nil
}

// config is a node's configuration: what a master on AWS needs, and then the settings for the stand-in.
const config = `# Node %[1]s of the demo. On AWS this would be the whole file, the same on every master:
cluster: {name: %[2]s, slots: [%[3]s]}
node: {address: auto, data-dir: %[4]q, name: %[1]s}
snapshot: {store: %[5]q}
volume:
  provider: ebs
  ebs:
    # Here a stand-in plays EC2 and the metadata service, and each host has devices of its own.
    endpoint: %[6]q
    metadata-endpoint: %[6]q
    device-root: %[7]q
    state: %[8]q
    # In a hurry, for you to see it. On AWS: leave them out.
    settle: 1s
    scan-every: 2s
    takeover-after: 3s
# The hosts are a sealed network on this machine, for you to look into. On AWS: leave it out, and etcd has TLS
# (docs/tls.md).
tls: {insecure: true}
`

// keep runs the node of a machine until ctx ends, and starts it again when it ends.
func (s *scene) keep(ctx context.Context, m *machine) {
	runtime.LockOSThread() // a command dies with the thread that started it, see package hosts
	defer runtime.UnlockOSThread()
	for {
		err := s.node(ctx, m)
		if ctx.Err() != nil {
			return
		}
		s.say("%s ended (%v), starting it again in %s; its log is %s", m.name, err, restartAfter, s.path(m.name+".log"))
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartAfter):
		}
	}
}

// node runs the node of a machine until it ends. If the instance is terminated, it launches another one first.
func (s *scene) node(ctx context.Context, m *machine) error {
	log, err := os.OpenFile(s.path(m.name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.mu.Lock()
	replaced := ""
	if i, ok := s.cloud.Instance(m.instance); ok && i.State == "terminated" {
		if err = s.launch(m); err == nil {
			replaced = fmt.Sprintf("instance %s replaces %s, at %s", m.instance, i.ID, m.host.Address())
		}
	}
	cmd := m.host.Command(ctx, s.binary, "run", "--config", m.config)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if replaced != "" {
		s.say("%s: %s", m.name, replaced)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

// watch shows the status of the cluster until ctx ends, and destroys the hosts of terminated instances.
func (s *scene) watch(ctx context.Context) {
	for ctx.Err() == nil {
		s.reap()
		if text := s.status(ctx); ctx.Err() == nil {
			s.show(text)
		}
		select {
		case <-ctx.Done():
		case <-time.After(redrawEvery):
		}
	}
}

// reap destroys the hosts of instances that are being terminated. Their nodes are started again on other instances.
func (s *scene) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if i, ok := s.cloud.Instance(m.instance); ok && (i.State == "shutting-down" || i.State == "terminated") {
			_ = m.host.Destroy() // it may be called again; a process that cannot be killed visibly keeps its device
		}
	}
}

// status returns the output of `holdfast status` from the first node that answers.
func (s *scene) status(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	const noAnswer = 3 // the exit code
	for _, m := range s.machines {
		cmd := exec.CommandContext(ctx, s.binary, "status", "--config", m.config)
		if text, _ := cmd.Output(); cmd.ProcessState != nil && cmd.ProcessState.ExitCode() != noAnswer && len(text) > 0 {
			return string(text)
		}
	}
	return "no node answers yet\n"
}

// changing matches what differs between two statuses although nothing has happened: ages, sizes and counts.
var changing = regexp.MustCompile(`\d\S*|\s+`)

// show redraws the terminal. Without a terminal, it prints the status when it has changed.
func (s *scene) show(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		const home, eraseRest = "\x1b[H", "\x1b[J"
		fmt.Fprintf(s.out, "%s%s%s\n%s\n\n%s", home, eraseRest, s.hints(status), strings.Join(s.said, "\n"), status)
		return
	}
	if gist := changing.ReplaceAllString(status, " "); gist != s.shown {
		s.shown = gist
		fmt.Fprintf(s.out, "\n%s\n%s", status, s.hints(status))
	}
}

// leader matches the leader's row in the table of `holdfast status`.
var leader = regexp.MustCompile(`(?m)^ (\S+) .* leader `)

// hints returns commands to try in another terminal. `volume list` runs on a host, because the metadata service answers
// only hosts.
func (s *scene) hints(status string) string {
	m, who := s.machines[0], ""
	if row := leader.FindStringSubmatch(status); row != nil {
		who = ", the leader"
		m = s.machines[slices.IndexFunc(s.machines, func(m *machine) bool { return m.name == row[1] })]
	}
	return fmt.Sprintf("try, in another terminal; Ctrl-C here removes everything\n"+
		"  %[1]s status --why --config %[2]s\n"+
		"  nsenter --target %[3]d --net %[1]s volume list --config %[2]s\n"+
		"  curl -d '{\"ID\": \"%[4]s\"}' %[5]s/_control/terminate   # the instance of %[6]s; another one replaces it\n",
		s.binary, m.config, m.host.Pid(), m.instance, s.server.URL, m.name+who)
}

// say prints an event at once and, on a terminal, above the next statuses.
func (s *scene) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := time.Now().Format(time.TimeOnly) + "  " + fmt.Sprintf(format, args...)
	s.said = append(s.said, text)
	s.said = s.said[max(0, len(s.said)-4):]
	fmt.Fprintln(s.out, text)
}
