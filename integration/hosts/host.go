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

// Host is a machine to the processes that run on it.
type Host struct {
	Name string // also the hostname

	network *Network
	space   *space

	// Under the network's lock.
	address netip.Addr
	anchor  *anchor // nil once it is destroyed
}

// build makes the namespaces and the line to the switch. What it has made when it fails, tearDown removes.
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

// tearDown undoes build, however far that came. It may be called again.
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

// address is an address of the subnet as the kernel wants it.
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
	for _, o := range old { // first, for with the old address goes every route
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

// Address is the host's address at present.
func (h *Host) Address() netip.Addr {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.address
}

// SetAddress moves the host to another address of the subnet. Its processes keep running; connections of the
// old address are not reset, they fall silent.
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

// forget removes what the namespace knows of the last holder of an address.
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

// Pid is the process id of the anchor, whose namespaces are the host's: `nsenter --target PID --net --mount --uts`
// gives a shell on the host. It is 0 when the host is destroyed, and another one after Reboot.
func (h *Host) Pid() int {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.anchor == nil {
		return 0
	}
	return h.anchor.pid()
}

// enter is the shell's part of Command: it makes the working directory, which is known only when the command starts,
// outlast the change of the mounts.
const enter = `exec nsenter --target "$0" --net --mount --uts --wdns="$PWD" -- "$@"`

// Command is like exec.CommandContext, but for a process on the host, with Dir, if it is set, as it is seen there.
// The process that is started becomes the program, so that signals reach it. A program that is not found is the
// exit code 127, not an error of Start. The process leads a process group of its own and dies with this one; see
// the package for the thread. The caller may change that in SysProcAttr.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	all := append([]string{"-c", enter, strconv.Itoa(h.Pid()), name}, args...)
	cmd := exec.CommandContext(ctx, "sh", all...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Do runs f on a thread that is on the host's network. Sockets that f opens on this goroutine are the host's, for
// as long as they live; goroutines that f starts are elsewhere. Processes that f starts see the machine's mounts and
// are none of the host's to Kill or Freeze: use Command.
func (h *Host) Do(f func() error) error {
	h.network.mu.Lock()
	if h.anchor == nil {
		h.network.mu.Unlock()
		return h.destroyed("enter")
	}
	ns, err := netns.GetFromPid(h.anchor.pid()) // a descriptor of our own: the host may be destroyed meanwhile
	h.network.mu.Unlock()
	if err != nil {
		return fmt.Errorf("enter host %s: %w", h.Name, err)
	}
	defer ns.Close()
	return within(ns, f)
}

// Dial connects from the host to an address whose host part is an IP address. It fits http.Transport.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Path is where this process finds the file that processes on the host find at path. It is good until the host
// is destroyed or rebooted, and a symbolic link in it that is absolute leads back out of the host.
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

// Destroy is a power cut for good: every process of the host is killed, and when it returns they are gone, and
// so are the host's mounts, its address, its line and the faults on it. It may be called again.
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
