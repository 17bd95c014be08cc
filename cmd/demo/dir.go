package demo

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"

	"holdfast/cmd/config"
	"holdfast/durable"
)

// ownName matches the names that the demo makes in its directory, and nothing else.
var ownName = regexp.MustCompile(`^(n[1-9](\.yaml|\.log)?|volumes|snapshots)$`)

// planName is the configuration of the first node. It marks the directory as a demo's, and the next demo reads its plan
// from it.
const planName = "n1.yaml"

// plan is the size of a demo and its addresses.
type plan struct {
	nodes int
	slots []string // never change, because the cluster may be founded already
	base  netip.Addr
}

func (p plan) String() string {
	return fmt.Sprintf("a demo (nodes: %d, slots: %s)", p.nodes, strings.Join(p.slots, ","))
}

// planFor returns the plan for the options. former is the plan of an earlier demo in the directory, or nil.
func planFor(o Options, former *plan) (plan, error) {
	p := plan{nodes: max(3, o.Slots), base: netip.MustParseAddr("127.0.0.1")}
	if former != nil {
		p = *former
	}
	p.nodes = cmp.Or(o.Nodes, p.nodes)
	if p.nodes < 1 || p.nodes > config.MaxSlots {
		return p, fmt.Errorf("--nodes: must be 1–%d, got %d", config.MaxSlots, p.nodes)
	}
	slots := cmp.Or(o.Slots, len(p.slots), map[bool]int{true: 3, false: 1}[p.nodes >= 3])
	if former != nil && slots != len(p.slots) {
		return p, fmt.Errorf("--slots: the cluster in %s has the slots %s and keeps them, got %d; --clean begins a new one",
			o.Dir, strings.Join(p.slots, ","), slots)
	}
	if former == nil && (slots < 1 || slots > p.nodes) {
		return p, fmt.Errorf("--slots: must be 1–%d, the number of nodes, got %d", p.nodes, slots)
	}
	p.slots = config.Sized(slots)
	if o.Base != "" {
		p.base, _ = netip.ParseAddr(o.Base) // on an error it is no loopback address, which is checked below
	}
	for _, a := range p.addresses() {
		// The demo has no authentication, so other machines must not reach it.
		if ip, _ := netip.ParseAddr(a); !ip.IsLoopback() {
			return p, fmt.Errorf("--address-base: must be a loopback address such as 127.0.1.1 for every node, got %q, which "+
				"leads to %s", cmp.Or(o.Base, p.base.String()), a)
		}
	}
	return p, nil
}

func (p plan) addresses() (all []string) {
	for a := p.base; len(all) < p.nodes; a = a.Next() {
		all = append(all, a.String())
	}
	return all
}

// directory is the directory of a demo. The nodes inherit its lock, so that no demo starts while a node of an earlier
// one is still ending.
type directory struct {
	path string // absolute
	lock *os.File
	plan plan
}

// openDir makes and locks the directory, and empties it with o.Clean. The caller closes the lock.
func openDir(o Options, say func(string, ...any)) (*directory, error) {
	d := &directory{path: config.Abs(o.Dir)}
	err := os.MkdirAll(d.path, 0o700)
	if err == nil {
		d.lock, err = os.Open(d.path)
	}
	if err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	if err := d.own(o, say); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// own locks the directory itself, because a lock file could be removed. Then it plans the demo.
func (d *directory) own(o Options, say func(string, ...any)) error {
	if err := durable.Flock(d.lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w; a demo runs there, or its nodes are still ending: end it first, or choose another "+
			"directory with --dir", o.Dir, err)
	}
	p, remove, err := plannedIn(d.path, o)
	for _, name := range remove {
		if err == nil {
			err = os.RemoveAll(filepath.Join(d.path, name))
			say("removed %s", filepath.Join(o.Dir, name))
		}
	}
	d.plan = p
	return err
}

// plannedIn returns the plan for a directory, and the names to remove there first, in this order. It returns an error
// if the directory is not a demo's, or must not be cleaned.
func plannedIn(path string, o Options) (p plan, remove []string, err error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, nil, fmt.Errorf("read the demo's directory: %w", err)
	}
	var former *plan
	if len(entries) > 0 {
		at := filepath.Join(path, planName)
		if text, err := os.ReadFile(at); err != nil || !strings.Contains(string(text), `of "holdfast demo"`) {
			return p, nil, fmt.Errorf("%s is not empty, and no demo made it (it holds %s): choose another directory with --dir",
				o.Dir, entries[0].Name())
		}
		if l, err := config.Load(at, nil, nil); o.Clean {
		} else if err != nil {
			return p, nil, fmt.Errorf("read the former demo: %w; --clean starts over", err)
		} else {
			former = &plan{len(l.Config.Gossip.Seeds), l.Config.Cluster.Slots, netip.MustParseAddr(l.Config.Gossip.Seeds[0])}
		}
	}
	if p, err = planFor(o, former); err != nil || !o.Clean {
		return p, nil, err
	}
	for _, e := range entries {
		if !ownName.MatchString(e.Name()) {
			return p, nil, fmt.Errorf("%s holds what the demo did not make: %s; nothing was removed: move it away, or choose "+
				"another directory with --dir", o.Dir, e.Name())
		}
		if e.Name() != planName {
			remove = append(remove, e.Name())
		}
	}
	if former == nil && len(entries) > 0 { // last, because it marks the directory as a demo's
		remove = append(remove, planName)
	}
	return p, remove, nil
}

// Would returns a text about what a demo would do, without making or locking its directory.
func Would(o Options) (string, error) {
	plan, remove, err := plannedIn(config.Abs(o.Dir), o)
	would := ""
	if len(remove) > 0 {
		would = fmt.Sprintf("would remove from %s: %s\n", o.Dir, strings.Join(remove, ", "))
	}
	return fmt.Sprintf("%swould start %s; data, configurations and logs in %s", would, plan, o.Dir), err
}

// nodeConfig is the template of a node's configuration. People learn from it how to write their own.
//
//go:embed node.yaml
var nodeConfig string

func (d *directory) write() (nodes []*node, err error) {
	yaml := func(elements ...string) (string, error) { // a JSON string is valid YAML
		text, err := json.Marshal(filepath.Join(elements...))
		return string(text), err
	}
	text, err := template.New("").Funcs(template.FuncMap{"join": strings.Join, "path": yaml}).Parse(nodeConfig)
	for i, address := range d.plan.addresses() {
		path := filepath.Join(d.path, fmt.Sprintf("n%d", i+1))
		n := &node{name: filepath.Base(path), file: path + ".yaml", log: path + ".log"}
		var b strings.Builder
		if err == nil {
			err = text.Execute(&b, map[string]any{"Name": n.name, "Address": address, "Dir": d.path, "Config": n.file,
				"Slots": d.plan.slots, "Seeds": d.plan.addresses(), "Standby": d.plan.nodes > len(d.plan.slots)})
		}
		if err == nil {
			err = os.WriteFile(n.file, []byte(b.String()), 0o600)
		}
		if err == nil {
			n.Loaded, err = config.Load(n.file, nil, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("write the configuration of %s: %w", n.name, err)
		}
		nodes = append(nodes, n)
	}
	for _, dir := range []string{"volumes", "snapshots"} { // nodes do not make them, because they may be missing mounts
		err = errors.Join(err, os.MkdirAll(filepath.Join(d.path, dir), 0o700))
	}
	return nodes, err
}

// checkPorts returns an error about the first port of the nodes that is not free. A node would report it as well, but
// only in its log, and it would be started again.
func checkPorts(nodes []*node) error {
	for _, n := range nodes {
		for _, e := range config.Endpoints(n.Config) {
			l, err := net.Listen("tcp", net.JoinHostPort(e.Host, e.Port))
			if err == nil {
				err = l.Close()
			}
			if err != nil {
				return fmt.Errorf("node %s needs this for %s: %w; end what listens there, or take other addresses, such as "+
					"--address-base 127.0.9.1 (macOS has them after: sudo ifconfig lo0 alias %s)", n.name, e.Key, err, e.Host)
			}
		}
	}
	return nil
}
