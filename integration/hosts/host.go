package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Host is an imitated machine.
type Host struct {
	Name string // also the hostname

	network *Network
	space   *space

	// Under the network's lock.
	address netip.Addr
	anchor  *anchor // nil after Destroy
}

// build makes the namespaces and the link to the switch. If it fails, tearDown removes what it has made.
func (h *Host) build() (err error) {
	if h.space, err = newSpace(); err != nil {
		return err
	}
	n := h.network
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: h.Name}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(h.space.ns)}
	if err := n.middle.LinkAdd(veth); err != nil {
		return fmt.Errorf("make a veth link: %w", err)
	}
	if _, err := h.space.up("lo", nil); err != nil {
		return err
	}
	if _, err := h.space.up("eth0", nil); err != nil {
		return err
	}
	if _, err := n.middle.up(h.Name, n.bridge); err != nil {
		return err
	}
	if err := h.assign(h.address); err != nil {
		return err
	}
	h.anchor, err = drop(h.space.ns, h.Name)
	return err
}

// tearDown undoes build, also after an error of build. It may be called again.
func (h *Host) tearDown() error {
	var errs []error
	if h.anchor != nil {
		errs = append(errs, h.anchor.kill(), h.anchor.raise())
		h.anchor = nil
	}
	if h.space != nil {
		errs = append(errs, h.network.middle.remove(h.Name))
		h.space.close()
		h.space = nil
	}
	return errors.Join(errs...)
}

// address returns an address with the subnet's mask, for netlink.
func (n *Network) address(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(n.subnet.Bits(), 32)}}
}

// assign makes a the only address of the host, and routes everything through it.
func (h *Host) assign(a netip.Addr) error {
	eth0, err := h.space.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find eth0: %w", err)
	}
	old, err := whole(func() ([]netlink.Addr, error) { return h.space.AddrList(eth0, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, o := range old { // before the route is set: removing an address removes its routes
		if err := h.space.AddrDel(eth0, &o); err != nil {
			return fmt.Errorf("remove address %s: %w", o.IPNet, err)
		}
	}
	if err := h.space.AddrAdd(eth0, h.network.address(a)); err != nil {
		return fmt.Errorf("assign address %s: %w", a, err)
	}
	route := &netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: h.network.Gateway().AsSlice()}
	if err := h.space.RouteReplace(route); err != nil {
		return fmt.Errorf("set the default route: %w", err)
	}
	return nil
}

// Address returns the host's current address.
func (h *Host) Address() netip.Addr {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.address
}

// SetAddress moves the host to another address of the subnet. Its processes keep running. Connections of the old
// address are not reset; they fall silent.
func (h *Host) SetAddress(a netip.Addr) error {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.anchor == nil {
		return h.destroyed("move")
	}
	other := n.holder(a)
	switch {
	case other == h:
		return nil
	case other != nil:
		return fmt.Errorf("move host %s: host %s has address %s", h.Name, other.Name, a)
	case !n.subnet.Contains(a) || a == n.subnet.Addr() || a == n.Gateway() || !n.subnet.Contains(a.Next()):
		return fmt.Errorf("move host %s: %s is no host's address of %s", h.Name, a, n.subnet)
	}
	if err := h.assign(a); err != nil {
		return fmt.Errorf("move host %s: %w", h.Name, err)
	}
	h.address = a
	for _, peer := range n.hosts {
		if err := peer.space.forget("eth0", a); err != nil {
			return fmt.Errorf("move host %s: %w", h.Name, err)
		}
	}
	return n.here.forget(n.link, a)
}

// forget removes the neighbour entries of an address.
func (s *space) forget(link string, a netip.Addr) error {
	l, err := s.LinkByName(link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", link, err)
	}
	neighbours, err := whole(func() ([]netlink.Neigh, error) { return s.NeighList(l.Attrs().Index, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	for _, neighbour := range neighbours {
		if !neighbour.IP.Equal(a.AsSlice()) {
			continue
		}
		if err := s.NeighDel(&neighbour); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("forget neighbour %s: %w", a, err)
		}
	}
	return nil
}

func (h *Host) destroyed(verb string) error {
	return fmt.Errorf("%s host %s: it is destroyed", verb, h.Name)
}

// Pid returns the process ID of the anchor, which has the host's namespaces: `nsenter --target PID --net --mount --uts`
// gives a shell on the host. It is 0 after Destroy, and changes with Reboot.
func (h *Host) Pid() int {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.anchor == nil {
		return 0
	}
	return h.anchor.pid()
}

// enter is the shell script of Command. It keeps the working directory, which is known only when the command starts,
// across the change of the mount namespace.
const enter = `exec nsenter --target "$0" --net --mount --uts --wdns="$PWD" -- "$@"`

// Command is like exec.CommandContext, but for a process on the host. Dir, if set, is a path on the host. The started
// process becomes the program, so that signals reach it. If the program is not found, the exit code is 127, and Start
// returns no error. The process has a process group of its own, and dies with the thread that started it (see the
// package). The caller may change both in SysProcAttr.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	all := append([]string{"-c", enter, strconv.Itoa(h.Pid()), name}, args...)
	cmd := exec.CommandContext(ctx, "sh", all...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Do runs f on a thread in the host's network. Sockets that f opens on this goroutine belong to the host as long as
// they exist. Goroutines that f starts are not on the host. To start processes, use Command: those that f starts see
// the machine's mounts, and Kill and Freeze ignore them.
func (h *Host) Do(f func() error) error {
	h.network.mu.Lock()
	if h.anchor == nil {
		h.network.mu.Unlock()
		return h.destroyed("enter")
	}
	ns, err := netns.GetFromPid(h.anchor.pid()) // a new descriptor, because the host may be destroyed meanwhile
	h.network.mu.Unlock()
	if err != nil {
		return fmt.Errorf("enter host %s: %w", h.Name, err)
	}
	defer ns.Close()
	return within(ns, f)
}

// Dial connects from the host to an address whose host part is an IP address. It can be used in an http.Transport.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Path returns where this process finds the file that processes on the host find at path. It is valid until the host is
// destroyed or rebooted. An absolute symbolic link in it leads back to the machine's files.
func (h *Host) Path(path string) string {
	return filepath.Join("/proc", strconv.Itoa(h.Pid()), "root", path)
}

// Mounts returns the mounts that processes on the host see.
func (h *Host) Mounts() ([]*mountinfo.Info, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(h.Pid()), "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read the mounts of host %s: %w", h.Name, err)
	}
	defer f.Close()
	all, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("read the mounts of host %s: %w", h.Name, err)
	}
	return all, nil
}

// Destroy kills all processes of the host and removes its mounts, its address, its link and its faults. It may be
// called again.
func (h *Host) Destroy() error {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.anchor == nil {
		return nil
	}
	err := h.tearDown()
	n.hosts = slices.DeleteFunc(n.hosts, func(o *Host) bool { return o == h })
	n.faults.forget(h.Name)
	if err = errors.Join(err, n.enforce(n.faults)); err != nil {
		return fmt.Errorf("destroy host %s: %w", h.Name, err)
	}
	return nil
}
