package hosts

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// space is a network namespace: a descriptor that keeps it alive, and a socket to configure it.
type space struct {
	ns netns.NsHandle
	*netlink.Handle
}

// newSpace makes an empty network namespace.
func newSpace() (*space, error) {
	here, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	defer here.Close()
	s := &space{}
	err = within(here, func() (err error) { // within returns to this namespace after netns.New
		s.ns, err = netns.New()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace (in a container this needs --privileged): %w", err)
	}
	if s.Handle, err = netlink.NewHandleAt(s.ns, unix.NETLINK_ROUTE); err != nil {
		s.ns.Close()
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	return s, nil
}

func (s *space) close() {
	s.Close()
	s.ns.Close()
}

// within runs f on a thread in the namespace. Other goroutines that f starts are not in it.
func within(ns netns.NsHandle, f func() error) (err error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer func() {
		if back := netns.Set(home); back != nil {
			err = errors.Join(err, fmt.Errorf("leave a network namespace: %w", back))
		} else {
			runtime.UnlockOSThread() // after an error, the runtime ends the locked thread with the goroutine
		}
		home.Close()
	}()
	if err := netns.Set(ns); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	return f()
}

// up brings up a link and, unless bridge is nil, makes it a port of the bridge.
func (s *space) up(name string, bridge netlink.Link) (netlink.Link, error) {
	link, err := s.LinkByName(name)
	if err == nil && bridge != nil {
		err = s.LinkSetMaster(link, bridge)
	}
	if err == nil {
		err = s.LinkSetUp(link)
	}
	if err != nil {
		return nil, fmt.Errorf("bring up link %s: %w", name, err)
	}
	return link, nil
}

// remove deletes a link, and so its other end. It is no error if the link is gone.
func (s *space) remove(name string) error {
	link, err := s.LinkByName(name)
	if err == nil {
		err = s.LinkDel(link)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}

func gone(err error) bool {
	_, missing := errors.AsType[netlink.LinkNotFoundError](err)
	return missing || errors.Is(err, unix.ENODEV)
}

// whole repeats a request for a list until no concurrent change interrupts it.
func whole[T any](list func() ([]T, error)) ([]T, error) {
	for {
		all, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			return all, err
		}
	}
}
