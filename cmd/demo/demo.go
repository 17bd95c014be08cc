package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/health"
)

const (
	restartAfter = time.Second      // how long a node that died stays away
	stopWait     = 15 * time.Second // from SIGTERM to SIGKILL
	tooOften     = 5                // deaths of a node before the cluster was ever healthy
)

// node is a node of the demo: its configuration and its process.
type node struct {
	name      string
	file, log string // paths of the configuration and of the log
	*config.Loaded
	pid atomic.Int64 // 0: no process runs
}

// Options are the flags of `holdfast demo`. A zero value means that the flag was not given.
type Options struct {
	Dir          string // for data, backups, configurations and logs
	Nodes, Slots int    // how many
	Base         string // the address of the first node; the others follow
	Clean        bool   // remove what an earlier demo has left in Dir
}

// demo is a running demo.
type demo struct {
	exe     string
	dir     *directory
	nodes   []*node
	screen  screen
	healthy atomic.Bool // the cluster has been healthy once
}

// Run runs the cluster and writes to out, until ctx ends, which is no error, or a node dies too often. It returns when
// all nodes have ended. When kill ends, it kills them.
func Run(ctx, kill context.Context, o Options, out io.Writer) (err error) {
	d := &demo{screen: screen{out: out}}
	if d.exe, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if d.dir, err = openDir(o, d.screen.say); err != nil {
		return err
	}
	defer d.dir.lock.Close()
	if d.nodes, err = d.dir.write(); err == nil {
		err = checkPorts(d.nodes)
	}
	if err != nil {
		return err
	}
	d.screen.say("starting %s; data, configurations and logs are in %s", d.dir.plan, o.Dir)
	running, ctx := errgroup.WithContext(ctx)
	for _, n := range d.nodes {
		running.Go(func() error { return n.keep(ctx, kill, d) })
	}
	d.watch(ctx)
	d.screen.close()
	d.screen.say("stopping the nodes; Ctrl-C again kills them")
	err = running.Wait()
	d.screen.say("stopped; the data is kept: `%s demo --dir %s` resumes it, --clean starts over", quote(os.Args[0]),
		quote(o.Dir))
	return err
}

// watch shows the status until ctx ends. It asks first the node that answered last.
func (d *demo) watch(ctx context.Context) {
	var clients []*control.Client
	for _, n := range d.nodes {
		clients = append(clients, control.Local(n.Config.Control.Socket))
	}
	begun := time.Now()
	for pause := 200 * time.Millisecond; ctx.Err() == nil; {
		var status health.ClusterStatus
		for i, c := range clients {
			asking, cancel := context.WithTimeout(ctx, 3*time.Second) // a node itself waits 2 s for the others
			var answer health.ClusterStatus
			err := c.Get(asking, "GET /status", &answer)
			cancel()
			if err == nil {
				status, clients[0], clients[i] = answer, c, clients[0]
				break
			}
		}
		if status.Health == health.Healthy && !d.healthy.Swap(true) {
			d.screen.say("cluster is healthy after %.1f s", time.Since(begun).Seconds())
			pause = time.Second
		}
		if ctx.Err() == nil {
			d.screen.show(status, d.hints(status))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// keep runs the node until ctx ends, and starts it again when it dies.
func (n *node) keep(ctx, kill context.Context, d *demo) error {
	// Linux sends the parent-death signal when the thread that started the child ends (prctl(2)), and Go may end a thread
	// at any time. So this thread must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for deaths := 1; ; deaths++ {
		how := n.run(ctx, kill, d, deaths > 1)
		if ctx.Err() != nil {
			return nil
		}
		last := tail(n.log, 10)
		if deaths >= tooOften && !d.healthy.Load() {
			return fmt.Errorf("node %s died %d times before the cluster was healthy; the end of %s:\n  %s", n.name, deaths,
				n.log, strings.Join(last, "\n  "))
		}
		if !strings.HasPrefix(how, "signal") { // the log does not mention a signal
			how += ": " + last[len(last)-1]
		}
		d.screen.say("%s died (%s), starting it again in %s", n.name, how, restartAfter)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartAfter):
		}
	}
}

// run runs the node's process once, and returns how it ended.
func (n *node) run(ctx, kill context.Context, d *demo, again bool) string {
	log, err := os.OpenFile(n.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, d.exe, "run", "--config", n.file)
	cmd.Env = child.WithoutOurs(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{d.dir.lock}                // see directory
	cmd.SysProcAttr = child.EndWithParent(syscall.SIGTERM) // Ctrl-C reaches only the demo, which then stops the nodes
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	n.pid.Store(int64(cmd.Process.Pid))
	defer n.pid.Store(0)
	defer context.AfterFunc(kill, func() { _ = cmd.Process.Kill() })() // an error means that it has ended
	if again {
		d.screen.say("%s was started again as process %d", n.name, cmd.Process.Pid)
	}
	_ = cmd.Wait() // ProcessState has the result
	return strings.Replace(cmd.ProcessState.String(), "exit status", "exit code", 1)
}

// tail returns the last lines of a log.
func tail(path string, most int) []string {
	data, _ := os.ReadFile(path) // on an error there is one empty line
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[max(0, len(lines)-most):]
}

// hints returns commands to try in another terminal, ready to be copied. The first sets a variable for the second.
func (d *demo) hints(status health.ClusterStatus) string {
	var urls []string
	kill := "kill -9 PID"
	for _, n := range d.nodes {
		urls = append(urls, n.Config.Etcd.AdvertiseClientURLs...)
		leads := func(s health.NodeStatus) bool { return s.Node == n.name && s.Etcd != nil && s.Etcd.Leader }
		if pid := n.pid.Load(); pid != 0 && slices.ContainsFunc(status.Nodes, leads) {
			kill = fmt.Sprintf("kill -9 %d   # %s, the leader", pid, n.name)
		}
	}
	exe, file := quote(os.Args[0]), quote(d.nodes[0].file)
	return fmt.Sprintf("try, in another terminal; Ctrl-C here stops the nodes and keeps their data\n"+
		"  ENDPOINTS=%[1]s\n  %[2]s etcdctl --endpoints $ENDPOINTS put hello world\n"+
		"  %[2]s status --why --config %[3]s\n  %[2]s snapshot save --config %[3]s\n  %[4]s\n", strings.Join(urls, ","), exe,
		file, kill)
}

// quote returns s as one word for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\$&|;<>()*?[]#~`{}!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
