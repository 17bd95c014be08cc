package cmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/demo"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

const (
	restartAfter = time.Second      // how long a node that died stays away
	stopWait     = 15 * time.Second // from SIGTERM to SIGKILL
	tooOften     = 5                // deaths of a node before the cluster was ever healthy
)

// demoNode is a node of the demo as its own configuration describes it, and its process.
type demoNode struct {
	name      string
	file, log string // paths: the configuration's, and the log's
	*config.Loaded
	pid atomic.Int64 // 0: no process runs
}

// demoOptions are the flags of `holdfast demo`. What is zero was not given.
type demoOptions struct {
	dir           string
	nodes, slots  int
	base          string
	clean, dryRun bool
}

func newDemoCommand() *cobra.Command {
	var o demo.Options
	var dryRun bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster of three nodes on this machine and watch it",
		Long: "Run a cluster of three nodes on this machine and watch it: three `holdfast run` processes on 127.0.0.1–3\n" +
			"with the usual ports, and what `holdfast status` says. A node that dies is started again.\n\n" +
			"Ctrl-C stops the nodes and keeps their data; the next demo in the same directory resumes it, with as many\n" +
			"nodes and at the same addresses unless a flag says otherwise. Ctrl-C twice kills them.\n\n" +
			"A node takes one slot, which makes it a member of etcd; the others stand by to take over the slot of one\n" +
			"that is gone. The slots are chosen once: a cluster that was started keeps them, whatever --nodes says.\n\n" +
			"Each node's configuration lies in the directory for you to read and copy. Without a terminal the status is\n" +
			"printed when it changes. The exit code is 0 after Ctrl-C, 1 when a node dies again and again from the start.",
		Example: "  holdfast demo\n" +
			"  holdfast demo --nodes 4                  # three members and one standby\n" +
			"  holdfast demo --nodes 5 --slots 5        # five members\n" +
			"  holdfast demo --address-base 127.0.1.1   # when port 2379 is in use on 127.0.0.1",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !dryRun {
				return runDemo(c, o)
			}
			would, err := demo.Would(o)
			if err != nil {
				return err
			}
			return show.NothingChanged(c.OutOrStdout(), would)
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.Dir, "dir", "./holdfast-demo", "`directory` for data, backups, configurations and logs")
	fs.IntVar(&o.Nodes, "nodes", 0, "`number` of nodes, 1–9 (default 3, or as many as before)")
	fs.IntVar(&o.Slots, "slots", 0, "`number` of slots, 1 to the number of nodes (default 3, or 1 with fewer nodes)")
	fs.StringVar(&o.Base, "address-base", "",
		"loopback `address` of the first node; the others follow (default 127.0.0.1, or as before)")
	fs.BoolVar(&o.Clean, "clean", false, "remove what a former demo left in the directory, then start over")
	addDryRun(fs, &dryRun)
	return c
}

// demo is one that runs.
type demonstration struct {
	exe     string
	dir     *demoDir
	nodes   []*demoNode
	screen  demoScreen
	healthy atomic.Bool // the cluster was, once
}

// runDemo runs the demo with signals of its own: the process must not end before the nodes, not even at the second
// Ctrl-C, which kills them.
func runDemo(c *cobra.Command, o demo.Options) error {
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	killing, kill := context.WithCancel(context.Background())
	defer kill()
	go obey(signals, stop, func(int) { kill() }) // ends with the process
	err := demo.Run(ctx, killing, o, c.OutOrStdout())
	if err == nil && killing.Err() != nil {
		return exitCode(130)
	}
	return err
}

// watch shows the status until ctx ends. The node that answered last is asked first.
func (d *demonstration) watch(ctx context.Context) {
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
			err := c.Get(asking, http.MethodGet, "/status", &answer)
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

// keep runs the node, and again when it ends, until ctx ends; kill ends what does not stop then.
func (n *demoNode) keep(ctx, kill context.Context, d *demonstration) error {
	// Linux sends the parent-death signal when the thread ends that started the child (prctl(2)), and Go ends
	// threads as it likes. So this one lives as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for deaths := 1; ; deaths++ {
		how := n.run(ctx, kill, d, deaths > 1)
		if ctx.Err() != nil {
			return nil
		}
		last := tail(n.log, 10)
		if deaths >= tooOften && !d.healthy.Load() {
			return fmt.Errorf("node %s died %d times before the cluster was healthy; the end of %s:\n  %s", n.name, deaths, n.log, strings.Join(last, "\n  "))
		}
		if !strings.HasPrefix(how, "signal") { // of a signal the log knows nothing
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

// run runs the node's process once, and says how it ended.
func (n *demoNode) run(ctx, kill context.Context, d *demonstration, again bool) string {
	log, err := os.OpenFile(n.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, d.exe, "run", "--config", n.file)
	cmd.Env = withoutOurs(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{d.dir.lock} // see demoDir
	cmd.SysProcAttr = orphanAttr()
	cmd.SysProcAttr.Setpgid = true // Ctrl-C on the terminal is for the demo, which stops the nodes in its own way
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	n.pid.Store(int64(cmd.Process.Pid))
	defer n.pid.Store(0)
	defer context.AfterFunc(kill, func() { _ = cmd.Process.Kill() })() // it may have ended
	if again {
		d.screen.say("%s was started again as process %d", n.name, cmd.Process.Pid)
	}
	_ = cmd.Wait() // the state says it all
	return strings.Replace(cmd.ProcessState.String(), "exit status", "exit code", 1)
}

// tail returns the last lines of a log.
func tail(path string, most int) []string {
	data, _ := os.ReadFile(path) // what cannot be read has nothing to say
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[max(0, len(lines)-most):]
}

// hints are commands to try in another terminal, ready to be copied. The first is for all others.
func (d *demonstration) hints(status health.ClusterStatus) string {
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
		"  %[2]s status --why --config %[3]s\n  %[2]s snapshot save --config %[3]s\n  %[4]s\n", strings.Join(urls, ","), exe, file, kill)
}

// quote makes one word of s for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\$&|;<>()*?[]#~`{}!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
