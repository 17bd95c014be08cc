package hosts

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// line is a path through the switch in one direction.
type line struct{ from, to string }

// service is a port of a transport protocol, at either end of a connection.
type service struct {
	host, proto string
	port        uint16
}

// faults are the current faults, by the names of hosts.
type faults struct {
	isolated map[string]bool
	cut      map[line]bool
	blocked  map[service]bool
	loss     map[string]int // percent
}

func newFaults() faults {
	return faults{map[string]bool{}, map[line]bool{}, map[service]bool{}, map[string]int{}}
}

func (f faults) clone() faults {
	return faults{maps.Clone(f.isolated), maps.Clone(f.cut), maps.Clone(f.blocked), maps.Clone(f.loss)}
}

// forget removes all faults of a host.
func (f faults) forget(host string) {
	delete(f.isolated, host)
	delete(f.loss, host)
	maps.DeleteFunc(f.cut, func(l line, _ bool) bool { return l.from == host || l.to == host })
	maps.DeleteFunc(f.blocked, func(s service, _ bool) bool { return s.host == host })
}

// rules renders the faults for `nft -f`, as one transaction that replaces the current rules.
//
// Rules that drop only one direction, or a share of the frames, let ARP pass. ARP needs an answer: without it, the
// other direction would end as well when the neighbour's address expires. In reality a router answers for a distant
// host.
func (f faults) rules(subnet netip.Prefix) string {
	var b strings.Builder
	rule := func(format string, args ...any) { fmt.Fprintf(&b, "\t\t"+format+" drop\n", args...) }
	b.WriteString("add table bridge faults\ndelete table bridge faults\ntable bridge faults {\n\tchain forward {\n")
	b.WriteString("\t\ttype filter hook forward priority filter; policy accept;\n")
	// Hosts are for tests, so nothing that they send may leave this machine.
	rule("oifname %q ether type ip ip daddr != %s", outside, subnet)
	for _, host := range slices.Sorted(maps.Keys(f.isolated)) {
		rule("iifname %q", host)
		rule("oifname %q", host)
	}
	for _, l := range slices.SortedFunc(maps.Keys(f.cut), compareLines) {
		rule("iifname %q oifname %q ether type != arp", l.from, l.to)
	}
	for _, s := range slices.SortedFunc(maps.Keys(f.blocked), compareServices) {
		for _, way := range []string{"iifname", "oifname"} {
			rule("%s %q %s sport %d", way, s.host, s.proto, s.port)
			rule("%s %q %s dport %d", way, s.host, s.proto, s.port)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(f.loss)) {
		rule("iifname %q ether type != arp numgen random mod 100 <= %d", host, f.loss[host]-1)
		rule("oifname %q ether type != arp numgen random mod 100 <= %d", host, f.loss[host]-1)
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

func compareLines(a, b line) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) }

func compareServices(a, b service) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.proto, b.proto), cmp.Compare(a.port, b.port))
}

// enforce sets the rules of the switch to these faults.
func (n *Network) enforce(f faults) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(f.rules(n.subnet))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := within(n.middle.ns, cmd.Run); err != nil {
		return fmt.Errorf("set the rules of the switch: %w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// change changes the faults. On an error they stay as they were.
func (n *Network) change(alter func(faults), concerned ...*Host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range concerned {
		if h.network != n {
			return fmt.Errorf("host %s is of another network", h.Name)
		}
		if h.anchor == nil {
			return h.destroyed("change the faults of")
		}
	}
	if n.closed {
		return nil // there are no hosts any more
	}
	f := n.faults.clone()
	alter(f)
	if err := n.enforce(f); err != nil {
		return err
	}
	n.faults = f
	return nil
}

// Isolate drops all packets to and from the host, also those of this process.
func (h *Host) Isolate() error {
	return h.network.change(func(f faults) { f.isolated[h.Name] = true }, h)
}

// Rejoin ends Isolate. Other faults stay.
func (h *Host) Rejoin() error {
	return h.network.change(func(f faults) { delete(f.isolated, h.Name) }, h)
}

// Block drops the host's packets of proto ("tcp" or "udp") from or to a port number, in both directions and at both
// ends. So it blocks the host's own server at that port, and the host's access to any other server at that port.
func (h *Host) Block(proto string, port uint16) error {
	if proto != "tcp" && proto != "udp" {
		return fmt.Errorf("block a port of host %s: the protocol must be tcp or udp, got %q", h.Name, proto)
	}
	return h.network.change(func(f faults) { f.blocked[service{h.Name, proto, port}] = true }, h)
}

// Unblock ends a Block. Other faults stay.
func (h *Host) Unblock(proto string, port uint16) error {
	return h.network.change(func(f faults) { delete(f.blocked, service{h.Name, proto, port}) }, h)
}

// Loss drops a random percentage of the packets that the host sends, and of those sent to it. 0 ends it.
func (h *Host) Loss(percent int) error {
	if percent < 0 || percent > 100 {
		return fmt.Errorf("lose frames of host %s: the percentage must be 0 to 100, got %d", h.Name, percent)
	}
	return h.network.change(func(f faults) {
		f.loss[h.Name] = percent
		if percent == 0 {
			delete(f.loss, h.Name)
		}
	}, h)
}

// Partition splits the network: hosts of different groups do not reach each other. A host in no group reaches all, and
// all hosts reach this process. It adds to existing cuts; Heal ends it.
func (n *Network) Partition(groups ...[]*Host) error {
	return n.change(func(f faults) {
		for i, group := range groups {
			for _, from := range group {
				for _, to := range slices.Concat(slices.Concat(groups[:i], groups[i+1:])...) {
					f.cut[line{from.Name, to.Name}] = true
				}
			}
		}
	}, slices.Concat(groups...)...)
}

// Cut drops every packet from one host to another. Packets in the other direction still arrive.
func (n *Network) Cut(from, to *Host) error {
	return n.change(func(f faults) { f.cut[line{from.Name, to.Name}] = true }, from, to)
}

// Heal ends all faults of the network. Frozen hosts stay frozen.
func (n *Network) Heal() error {
	return n.change(func(f faults) {
		clear(f.isolated)
		clear(f.cut)
		clear(f.blocked)
		clear(f.loss)
	})
}
