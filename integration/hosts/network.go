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

// Options are the options of a network.
type Options struct {
	// Subnet is the network's subnet, from /16 to /29. The default is a /24 of 10.77.0.0/16 that is not in use on the
	// machine.
	Subnet netip.Prefix
}

// Network is a switch with hosts, and this process, whose address is Gateway. Its methods and those of its hosts may be
// called concurrently.
type Network struct {
	subnet netip.Prefix
	link   string // this process's end of the link to the switch; its name reserves the subnet
	here   *space // this process's namespace, without a descriptor
	middle *space // the switch's namespace
	bridge netlink.Link

	mu     sync.Mutex
	hosts  []*Host
	next   netip.Addr
	faults faults
	closed bool
}

// outside is the port of the switch that leads to this process.
const outside = "outside"

// New makes a network without hosts. It first removes what killed processes have left of their networks.
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

// reserve chooses a subnet and connects the switch. The name of the link contains the subnet, so that only one network
// of the machine can have it.
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

// Subnet returns the subnet of the hosts' addresses.
func (n *Network) Subnet() netip.Prefix { return n.subnet }

// Gateway returns the address at which hosts reach this process. It is also their default route.
func (n *Network) Gateway() netip.Addr { return n.subnet.Addr().Next() }

// Hosts returns the hosts that are not destroyed, oldest first.
func (n *Network) Hosts() []*Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hosts)
}

// Unused returns an address that no host has or had. SetAddress may still assign it later.
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

// validName matches names that are valid as a hostname and as a link's name, and need no quotes.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`)

// Add connects a new host to the switch, with an address that no host had before.
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
		// The kernel frees a closed namespace later, but the link must be gone now.
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
