package hosts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Options says how the network should be. The zero value is good.
type Options struct {
	// Subnet is the network's, from /16 to /29. The default is a /24 of 10.77.0.0/16 that is in use nowhere on the
	// machine.
	Subnet netip.Prefix
}

// Network is a switch, the hosts that are connected to it, and this process, which is reached at Gateway. Its
// methods and those of its hosts may be called at the same time.
type Network struct {
	subnet netip.Prefix
	link   string // our end of the line to the switch; its name reserves the subnet
	here   *space // this process's; its descriptor is not ours
	middle *space // the switch
	bridge netlink.Link

	mu     sync.Mutex
	hosts  []*Host
	next   netip.Addr
	faults faults
	closed bool
}

// outside is the port of the switch that leads to this process.
const outside = "outside"

// New makes a network without hosts. Before that it removes what a process that was killed has left of its own.
func New(o Options) (*Network, error) {
	if err := equipped(); err != nil {
		return nil, err
	}
	id, err := self()
	if err != nil {
		return nil, err
	}
	n := &Network{faults: newFaults()}
	if err := n.build(o, id); err != nil {
		return nil, errors.Join(fmt.Errorf("make a network for hosts: %w", err), n.Close())
	}
	return n, nil
}

func (n *Network) build(o Options, id owner) error {
	here, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	n.here = &space{Handle: here}
	if err := sweep(n.here); err != nil {
		return fmt.Errorf("remove what a killed process left: %w", err)
	}
	if n.middle, err = newSpace(); err != nil {
		return err
	}
	n.bridge = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}}
	if err := n.middle.LinkAdd(n.bridge); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	if n.bridge, err = n.middle.up("bridge", nil); err != nil {
		return err
	}
	if err := n.reserve(o.Subnet); err != nil {
		return err
	}
	if _, err := n.middle.up(outside, n.bridge); err != nil {
		return err
	}
	link, err := n.here.up(n.link, nil)
	if err == nil {
		err = n.here.LinkSetAlias(link, id.mark(outside))
	}
	if err == nil {
		err = n.here.AddrAdd(link, n.address(n.Gateway()))
	}
	if err != nil {
		return fmt.Errorf("connect to the switch: %w", err)
	}
	return n.enforce(n.faults)
}

// reserve connects the switch, by a line whose name only one network of the machine can have.
func (n *Network) reserve(want netip.Prefix) error {
	candidates := []netip.Prefix{want.Masked()}
	if !want.IsValid() {
		candidates = nil
		for _, x := range rand.Perm(256) {
			candidates = append(candidates, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(x), 0}), 24))
		}
	} else if !want.Addr().Is4() || want.Bits() < 16 || want.Bits() > 29 {
		return fmt.Errorf("subnet: must be IPv4 and from /16 to /29, got %s", want)
	}
	routes, err := whole(func() ([]netlink.Route, error) { return n.here.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, subnet := range candidates {
		if slices.ContainsFunc(routes, func(r netlink.Route) bool { return overlaps(r, subnet) }) {
			continue
		}
		name := fmt.Sprintf("hf-%x", subnet.Addr().AsSlice())
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: outside,
			PeerNamespace: netlink.NsFd(n.middle.ns)}
		err := n.here.LinkAdd(veth)
		if errors.Is(err, unix.EEXIST) {
			continue // another network came first
		}
		if err != nil {
			return fmt.Errorf("make a veth link: %w", err)
		}
		n.subnet, n.link, n.next = subnet, name, subnet.Addr().Next().Next()
		return nil
	}
	return fmt.Errorf("no subnet is free: %s and all others that were tried are in use on this machine", candidates[0])
}

func overlaps(r netlink.Route, subnet netip.Prefix) bool {
	if r.Dst == nil {
		return false // a default route
	}
	ones, _ := r.Dst.Mask.Size()
	ip, ok := netip.AddrFromSlice(r.Dst.IP)
	return ok && ones > 0 && netip.PrefixFrom(ip.Unmap(), ones).Overlaps(subnet)
}

// Subnet is where the hosts' addresses are from.
func (n *Network) Subnet() netip.Prefix { return n.subnet }

// Gateway is the address of this process, at which hosts reach what it listens on, and their default route.
func (n *Network) Gateway() netip.Addr { return n.subnet.Addr().Next() }

// Hosts returns the hosts that are not destroyed, oldest first.
func (n *Network) Hosts() []*Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hosts)
}

// Unused returns an address that no host has or had, unless SetAddress gives it one.
func (n *Network) Unused() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unused()
}

func (n *Network) unused() (netip.Addr, error) {
	for {
		a := n.next
		n.next = a.Next()
		if !n.subnet.Contains(n.next) { // a is the broadcast address
			n.next = a
			return netip.Addr{}, fmt.Errorf("subnet %s has no address left", n.subnet)
		}
		if n.holder(a) == nil {
			return a, nil
		}
	}
}

func (n *Network) holder(a netip.Addr) *Host {
	if i := slices.IndexFunc(n.hosts, func(h *Host) bool { return h.address == a }); i >= 0 {
		return n.hosts[i]
	}
	return nil
}

// validName is one that is a hostname, a link's name, and needs no quotes.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`)

// Add connects a new host to the switch, with an address that none had before.
func (n *Network) Add(name string) (*Host, error) {
	if !validName.MatchString(name) || slices.Contains([]string{outside, "bridge", "lo"}, name) {
		return nil, fmt.Errorf("add host %q: the name must be 1 to 15 letters, digits and dashes, and "+
			"not one of the switch's own", name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("add host %s: the network is closed", name)
	}
	if slices.ContainsFunc(n.hosts, func(h *Host) bool { return h.Name == name }) {
		return nil, fmt.Errorf("add host %s: there is one of that name", name)
	}
	address, err := n.unused()
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	h := &Host{Name: name, network: n, address: address}
	if err := h.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("add host %s: %w", name, err), h.tearDown())
	}
	n.hosts = append(n.hosts, h)
	return h, nil
}

// Close destroys all hosts, as Destroy does, and the network. It may be called again.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	var errs []error
	for _, h := range n.hosts {
		errs = append(errs, h.tearDown())
	}
	n.hosts = nil
	if n.link != "" {
		// Namespaces are freed later than they are closed: what is in this one should go now.
		errs = append(errs, n.here.remove(n.link))
	}
	if n.middle != nil {
		n.middle.close()
	}
	if n.here != nil {
		n.here.Close()
	}
	return errors.Join(errs...)
}
