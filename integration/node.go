package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration/hosts"
	"holdfast/volume"
)

const terminate = syscall.SIGTERM

// Node is a process of `holdfast run`, with the address and the directory of its host.
type Node struct {
	Name    string
	Address string
	Dir     string         // of the host: configuration and log
	Data    string         // node.data-dir
	Root    string         // volume.local.root
	Keys    map[string]any // by full name; they override the cluster's. The value nil means the key's default
	Machine *Machine       // on a site: the machine that it runs on
	Host    *hosts.Host    // with Options.Net, and on a site: where its processes run; nil: on this machine
	Binary  string         // the holdfast that it runs, from its next start on; "": the cluster's

	c       *Cluster
	process *process // the current or the last one; nil before the first start
}

// File returns the path of the configuration file.
func (n *Node) File() string { return filepath.Join(n.Dir, "config.yaml") }

// Socket returns the path of the control socket.
func (n *Node) Socket() string { return filepath.Join(n.Data, "holdfast.sock") }

// ClientURL returns the URL of etcd's API.
func (n *Node) ClientURL() string {
	scheme := "http"
	if n.c.TLS != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, n.Address, 2379+n.c.ports)
}

// Volume returns the directory of the slot that the configuration names.
func (n *Node) Volume() string {
	return filepath.Join(n.Root, n.Keys["volume.local.slot"].(string))
}

// Configure writes the configuration file. Backups and drills are off unless a story wants them.
func (n *Node) Configure() {
	n.c.t.Helper()
	keys := map[string]any{
		"cluster.name": n.c.Name, "cluster.slots": n.c.Slots,
		"node.name": n.Name, "node.address": n.Address, "node.data-dir": n.Data,
		"gossip.seeds":      n.c.Addresses(),
		"volume.local.root": n.Root,
		"snapshot.store":    n.c.Store, "snapshot.every": "0s", "snapshot.drill": "0s",
		"log.format": "json",
	}
	switch {
	case n.Machine != nil:
		keys = n.keysOnSite()
	case n.Host != nil:
		keys["tls.insecure"] = true // its address is not loopback
	}
	maps.Copy(keys, n.c.keys)
	maps.Copy(keys, n.Keys)
	maps.DeleteFunc(keys, func(_ string, value any) bool { return value == nil })
	tree := map[string]any{}
	for key, value := range keys {
		at, path := tree, strings.Split(key, ".")
		for _, section := range path[:len(path)-1] {
			if at[section] == nil {
				at[section] = map[string]any{}
			}
			at = at[section].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
	data, err := json.MarshalIndent(tree, "", "  ") // JSON is YAML
	if err == nil {
		err = os.WriteFile(n.File(), data, 0o600)
	}
	if err != nil {
		n.c.t.Fatal(err)
	}
}

// Start starts the process with its configuration and, on top of the test's own environment, env ("NAME=value").
func (n *Node) Start(env ...string) {
	n.c.t.Helper()
	n.Configure()
	n.Run([]string{"--config", n.File()}, env...)
}

// Run starts the process as `holdfast run args...` in the directory Dir, without any configuration but these arguments
// and env.
func (n *Node) Run(args []string, env ...string) {
	n.c.t.Helper()
	if n.Running() {
		n.c.t.Fatalf("%s runs already", n.Name)
	}
	p, err := start(n.command(append([]string{"run"}, args...)...), n.Dir, append(slices.Clone(n.c.env), env...))
	if err != nil {
		n.c.t.Fatalf("start %s: %v", n.Name, err)
	}
	n.process = p
}

// command returns a command of holdfast on the node's machine.
func (n *Node) command(args ...string) *exec.Cmd {
	binary := cmp.Or(n.Binary, n.c.binary)
	if n.Host != nil {
		return n.Host.Command(context.Background(), binary, args...)
	}
	return exec.Command(binary, args...)
}

// Running reports whether the process runs. A paused process runs.
func (n *Node) Running() bool { return n.process != nil && !n.process.ended() }

// Paused reports whether the process is paused.
func (n *Node) Paused() bool { return n.Running() && n.process.paused }

// Signal sends a signal to the process, if it runs.
func (n *Node) Signal(s syscall.Signal) {
	if n.Running() {
		n.process.signal(s)
	}
}

// Kill kills the process and waits until it is gone.
func (n *Node) Kill() {
	if n.process != nil {
		n.process.signal(syscall.SIGKILL)
		<-n.process.done
	}
}

// Pause suspends the process until Continue. The process can notice it only by the clock.
func (n *Node) Pause() { n.Signal(syscall.SIGSTOP); n.process.paused = true }

// Continue ends a Pause.
func (n *Node) Continue() { n.process.paused = false; n.Signal(syscall.SIGCONT) }

// Stop ends the process with SIGTERM and returns how long that took. Any exit code but 0 fails the test.
func (n *Node) Stop() time.Duration {
	n.c.t.Helper()
	begin := time.Now()
	n.Signal(terminate)
	if code := n.Exit(20 * time.Second); code != 0 {
		n.c.t.Errorf("%s after SIGTERM: exit code %d", n.Name, code)
	}
	return time.Since(begin)
}

// Exit waits for the process to end and returns its exit code, or -1 after a signal.
func (n *Node) Exit(within time.Duration) int {
	n.c.t.Helper()
	if n.process == nil {
		return 0
	}
	select {
	case <-n.process.done:
		return n.process.code
	case <-time.After(within):
		n.c.t.Fatalf("%s has not ended within %s", n.Name, within)
		return 0
	}
}

// Wipe gives the host a blank disk. It removes the volume, and the file in which the node remembers it.
func (n *Node) Wipe() {
	n.c.t.Helper()
	if n.Running() {
		n.c.t.Fatalf("%s runs: its disk is in use", n.Name)
	}
	err := os.Remove(filepath.Join(n.Data, volume.MarkerName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, os.RemoveAll(n.Root)); err != nil {
		n.c.t.Fatal(err)
	}
}

// Status returns the cluster's status from the running node, as `holdfast status` does.
func (n *Node) Status() (s health.ClusterStatus, err error) {
	err = n.control(http.MethodGet, "/status", &s)
	return s, err
}

// Look makes the running node read the store at once, as `holdfast restore` does, instead of within ten seconds.
func (n *Node) Look() {
	n.c.t.Helper()
	if err := n.control(http.MethodPost, "/look", &struct{}{}); err != nil {
		n.c.t.Fatal(err)
	}
}

// control sends a request to the node's control socket.
func (n *Node) control(method, path string, answer any) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.Socket())
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequest(method, "http://holdfast"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", n.Name, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("decode what %s answers: %w", n.Name, err)
	}
	return nil
}

// Self returns the node's own status.
func (n *Node) Self() (health.NodeStatus, error) {
	s, err := n.Status()
	if err != nil {
		return health.NodeStatus{}, err
	}
	if self := s.Self(); self != nil {
		return *self, nil
	}
	return health.NodeStatus{}, fmt.Errorf("%s does not know itself", n.Name)
}

// Says waits until the node's action is wait, with a reason that contains all texts.
func (n *Node) Says(texts ...string) {
	n.c.t.Helper()
	n.c.Until(patience, fmt.Sprintf("%s says %q", n.Name, texts), func() error {
		s, err := n.Self()
		if err != nil {
			return err
		}
		for _, text := range texts {
			if s.Action != "wait" || !strings.Contains(s.Why, text) {
				return fmt.Errorf("it says %s: %s", s.Action, s.Why)
			}
		}
		return nil
	})
}

// Logs waits for a line in the log of the current process that contains all texts.
func (n *Node) Logs(texts ...string) {
	n.c.t.Helper()
	n.c.Until(patience, fmt.Sprintf("%s logs %q", n.Name, texts), func() error {
	lines:
		for line := range strings.Lines(n.Log()) {
			for _, text := range texts {
				if !strings.Contains(line, text) {
					continue lines
				}
			}
			return nil
		}
		return errors.New("there is no such line")
	})
}

// Output is the output of a command, and its exit code.
type Output struct {
	Out, Err string
	Code     int
}

// Command runs `holdfast args... --config FILE` for this node.
func (n *Node) Command(args ...string) Output {
	n.c.t.Helper()
	return n.Holdfast(append(args, "--config", n.File())...)
}

// Begin runs a Command in the background. The channel gets its output.
func (n *Node) Begin(args ...string) <-chan Output {
	n.c.t.Helper()
	done := make(chan Output, 1)
	go func() { done <- n.Command(args...) }()
	return done
}

// Holdfast runs `holdfast args...` in Dir.
func (n *Node) Holdfast(args ...string) Output {
	n.c.t.Helper()
	cmd := n.command(args...)
	cmd.Dir, cmd.Env = n.Dir, append(os.Environ(), n.c.env...)
	tooLong := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer tooLong.Stop()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		n.c.t.Fatalf("run holdfast %s: %v", strings.Join(args, " "), err)
	}
	return Output{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Decision is a line of the log about a decision.
type Decision struct {
	Time   string `json:"ts"`
	Msg    string `json:"msg"`
	Action string `json:"action"`
	Why    string `json:"why"`
}

// Decisions returns what the node has decided since its last start, oldest first.
func (n *Node) Decisions() []Decision {
	var all []Decision
	for line := range strings.Lines(n.Log()) {
		var d Decision
		if json.Unmarshal([]byte(line), &d) == nil && d.Msg == "decided" {
			all = append(all, d)
		}
	}
	return all
}

// Resolves returns the address to which the process resolves a slot's name, according to its log, or "".
func (n *Node) Resolves(slot string) (address string) {
	for line := range strings.Lines(n.Log()) {
		var l struct {
			Logger string              `json:"logger"`
			Slots  map[string][]string `json:"slots"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Logger == "names" && l.Slots != nil {
			address = strings.Join(l.Slots[slot], ",")
		}
	}
	return address
}

// Log returns what the process has written since its last start.
func (n *Node) Log() string {
	if n.process == nil {
		return ""
	}
	f, err := os.Open(n.process.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, n.process.from, 1<<30))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Report returns the node's last decisions and the end of its log, for the analysis of a failure.
func (n *Node) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s (%s) ", n.Name, n.Address)
	switch {
	case n.process == nil:
		return b.String() + "was never started"
	case n.Running():
		b.WriteString("runs\n")
	default:
		fmt.Fprintf(&b, "ended with code %d\n", n.process.code)
	}
	last := func(lines []string, count int) []string { return lines[max(0, len(lines)-count):] }
	var decisions, tail []string
	for _, d := range n.Decisions() {
		decisions = append(decisions, fmt.Sprintf("  %s %s: %s", d.Time, d.Action, d.Why))
	}
	for line := range strings.Lines(n.Log()) {
		if !strings.Contains(line, `"logger":"etcd.etcd.raft"`) {
			tail = append(tail, "  "+strings.TrimSpace(line))
		}
	}
	return b.String() + "decided\n" + strings.Join(last(decisions, 12), "\n") + "\nlog\n" + strings.Join(last(tail, 12),
		"\n")
}
