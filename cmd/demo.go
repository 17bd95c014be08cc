package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
)

// demoOptions are the flags of `holdfast demo`. What is zero was not given.
type demoOptions struct {
	dir   string
	nodes int
	slots int
	base  string
	clean bool

	dryRun bool
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster of three nodes on this machine and watch it",
		Long: "Run a cluster of three nodes on this machine and watch it: three `holdfast run` processes on 127.0.0.1–3\n" +
			"with the usual ports, and a table of what each does and why. A node that dies is started again.\n\n" +
			"Ctrl-C stops the nodes and keeps their data; the next demo in the same directory resumes it, with as many\n" +
			"nodes and at the same addresses unless a flag says otherwise. Ctrl-C twice kills them.\n\n" +
			"A node takes one slot, which makes it a member of etcd; the others stand by to take over the slot of one\n" +
			"that is gone. There are three slots, or one when there are fewer nodes; --slots says otherwise. They are\n" +
			"chosen once: a cluster that was started keeps its slots, whatever --nodes says.\n\n" +
			"Each node's configuration lies in the directory for you to read and copy. Without a terminal each change is\n" +
			"one line. The exit code is 0 after Ctrl-C, and 1 when a node dies again and again before the cluster is healthy.",
		Example: "  holdfast demo\n" +
			"  holdfast demo --nodes 4                  # three members and one standby\n" +
			"  holdfast demo --nodes 5 --slots 5        # five members\n" +
			"  holdfast demo --address-base 127.0.1.1   # when port 2379 is in use on 127.0.0.1",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.dryRun {
				would, err := wouldDemo(o)
				if err != nil {
					return err
				}
				return nothingChanged(c, would)
			}
			return runDemo(c.Context(), o, c.OutOrStdout())
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.dir, "dir", "./holdfast-demo", "`directory` for data, backups, configurations and logs")
	fs.IntVar(&o.nodes, "nodes", 0, "`number` of nodes, 1–9 (default 3, or as many as before)")
	fs.IntVar(&o.slots, "slots", 0, "`number` of slots, 1 to the number of nodes (default 3, or 1 with fewer nodes)")
	fs.StringVar(&o.base, "address-base", "", "loopback `address` of the first node; the others follow (default 127.0.0.1, or as before)")
	fs.BoolVar(&o.clean, "clean", false, "remove what a former demo left in the directory, then start anew")
	addDryRun(fs, &o.dryRun)
	return c
}

// runDemo makes the demo ready, and leaves the rest to [demo.run].
func runDemo(ctx context.Context, o demoOptions, out io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, "holdfast demo: "+format+"\n", args...) }
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir, err := openDemoDir(ctx, o, say)
	if err != nil {
		return err
	}
	defer dir.lock.Close()
	nodes, err := dir.write()
	if err != nil {
		return err
	}
	if err := checkPorts(nodes); err != nil {
		return err
	}
	say("starting %s; data, configurations and logs in %s", dir.plan, o.dir)
	if quorum := len(dir.plan.Slots)/2 + 1; len(nodes) < quorum {
		say("the slots %s need %d nodes for a majority: with %d the cluster will wait", strings.Join(dir.plan.Slots, ","), quorum, len(nodes))
	}
	d := &demo{dir: o.dir, view: newDemoView(out), say: say}
	for _, n := range nodes {
		d.children = append(d.children, &demoChild{node: n, command: func() (*exec.Cmd, error) {
			return onThisMachine(exe, n.config, dir.lock), nil
		}})
	}
	return d.run(ctx)
}

// checkPorts reports the first port that the nodes need and that is not free. A node would say so, too, but
// in its log.
func checkPorts(nodes []demoNode) error {
	for _, n := range nodes {
		for _, e := range config.Endpoints(n.cfg) {
			address := net.JoinHostPort(e.Host, e.Port)
			l, err := net.Listen("tcp", address)
			if err == nil {
				err = l.Close()
			}
			if err == nil && e.Key == "gossip.listen" {
				var p net.PacketConn
				if p, err = net.ListenPacket("udp", address); err == nil {
					err = p.Close()
				}
			}
			if err != nil {
				return portError(n, e, err)
			}
		}
	}
	return nil
}

func portError(n demoNode, e config.Endpoint, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use, but node %s needs it (%s): end what listens there, or take other addresses, such as --address-base %s",
			net.JoinHostPort(e.Host, e.Port), n.name, e.Key, otherBase(n.address))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("this machine does not have the address %s of node %s; on macOS: sudo ifconfig lo0 alias %s", e.Host, n.name, e.Host)
	}
	return fmt.Errorf("listen for node %s (%s): %w", n.name, e.Key, err)
}

// otherBase is an address well away from a, to begin with instead.
func otherBase(a string) string {
	ip := net.ParseIP(a).To4()
	if ip == nil {
		return defaultBase
	}
	return net.IPv4(127, ip[1], ip[2]+1, 1).String()
}

// demoHints are the commands to try, ready to be copied. The first is for all others.
func demoHints(dir string, nodes []demoNode) []string {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.cfg.Etcd.AdvertiseClientURLs...)
	}
	exe, config := quote(os.Args[0]), quote(filepath.Join(dir, nodes[0].name+".yaml"))
	return []string{
		"ENDPOINTS=" + strings.Join(urls, ","),
		exe + " etcdctl --endpoints $ENDPOINTS put hello world",
		exe + " status --config " + config,
		exe + " snapshot save --config " + config,
	}
}

// quote makes one word of s for a shell.
func quote(s string) string {
	plain := func(r rune) bool { return !strings.ContainsRune(" \t\n\"'\\$&|;<>()*?[]#~`{}!", r) }
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
