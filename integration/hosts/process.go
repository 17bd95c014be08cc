package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience limits how long processes may take to end or stop after a signal. Only a process that hangs in the kernel
// takes as long.
const patience = 10 * time.Second

// process is a process with a descriptor, so that a later process with the same ID is not taken for it.
type process struct{ pid, fd int }

// processes returns the running processes for which fits is true. The caller closes them.
//
// It never returns a process that sees the machine's mounts, except this process's children on their way to a host.
// All processes of the machine see these mounts, and no process on a host does. So a mistake about namespaces cannot
// kill the machine's processes.
func processes(fits func(pid int) bool) ([]process, error) {
	machine, err := namespaceOf(os.Getpid(), "mnt")
	if err != nil {
		return nil, fmt.Errorf("read the mount namespace: %w", err)
	}
	meant := func(pid int) bool {
		host := entering(pid)
		mnt, err := namespaceOf(pid, "mnt")
		return err == nil && (mnt != machine || host != "") && fits(pid)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !meant(pid) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("open process %d: %w", pid, err)
		}
		if !meant(pid) { // the process ended before it was opened, and this is another one
			unix.Close(fd)
			continue
		}
		all = append(all, process{pid, fd})
	}
	return all, nil
}

func closeAll(all []process) {
	for _, p := range all {
		unix.Close(p.fd)
	}
}

func (p process) signal(s unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, s, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return nil
}

// ended waits until the process has ended, with all its threads and their files closed. It may be a zombie then.
func (p process) ended(deadline time.Time) error {
	for {
		left := max(0, time.Until(deadline))
		count, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", p.pid, err)
		case count > 0:
			return nil
		case left == 0:
			return fmt.Errorf("process %d was killed and has not ended within %s: it waits in the kernel", p.pid, patience)
		}
	}
}

// kill kills the processes for which fits is true, and those that they start meanwhile, and waits until none is left.
func kill(fits func(pid int) bool) error {
	deadline := time.Now().Add(patience)
	for {
		all, err := processes(fits)
		if err != nil || len(all) == 0 {
			return err
		}
		var errs []error
		for _, p := range all {
			errs = append(errs, p.signal(unix.SIGKILL))
		}
		for _, p := range all {
			errs = append(errs, p.ended(deadline))
		}
		closeAll(all)
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
}

// namespaceOf returns the kernel's name of a namespace of a process. A zombie has none.
func namespaceOf(pid int, kind string) (string, error) {
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", kind))
}

// entering is for a process started by [Host.Command] that has not entered its host yet, as may be the case when Start
// returns. It returns the process ID of that host's anchor, and "" for any other process. Call it before reading the
// process's namespaces: if it enters the host in between, its namespaces are the host's.
func entering(pid int) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for {
		stat, err := status(dir)
		if err != nil || stat.exiting || stat.parent != strconv.Itoa(os.Getpid()) {
			return ""
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(string(line), "\x00")
		switch {
		case len(line) == 0: // for a moment during exec
			continue
		case len(args) > 3 && slices.Equal(args[:3], []string{"sh", "-c", enter}):
			return args[3]
		case len(args) > 2 && slices.Equal(args[:2], []string{"nsenter", "--target"}):
			return args[2]
		}
		return ""
	}
}

// holds reports whether a process other than the anchor is on the anchor's host, or is entering it. One common
// namespace is enough, because a process may have made a mount or network namespace of its own.
func (a *anchor) holds(pid int) bool {
	if pid == a.pid() {
		return false
	}
	host := entering(pid)
	mnt, _ := namespaceOf(pid, "mnt")
	net, _ := namespaceOf(pid, "net")
	return host == strconv.Itoa(a.pid()) || mnt == a.mnt || net == a.net
}

func (a *anchor) kill() error { return kill(a.holds) }

// Kill imitates a power cut for the host's processes: it kills all of them at once, and they are gone when it returns.
// The mounts stay; Reboot removes them as well.
func (h *Host) Kill() error {
	return h.held("kill", (*anchor).kill)
}

// Reboot is like Kill, but also removes the host's mounts and empties its /run. The address and the faults stay.
// Nothing runs until a Command is started.
func (h *Host) Reboot() error {
	return h.held("reboot", func(a *anchor) error {
		if err := errors.Join(a.kill(), a.raise()); err != nil {
			return err
		}
		fresh, err := drop(h.space.ns, h.Name)
		if err == nil {
			*a = *fresh
		}
		return err
	})
}

// Freeze suspends all processes of the host, and returns when none runs. They can notice it only by the clock; data
// sent to them waits. Processes that are started on the host later do run.
func (h *Host) Freeze() error {
	return h.held("freeze", func(a *anchor) error {
		deadline := time.Now().Add(patience)
		for {
			all, err := processes(a.holds)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(p process) bool {
				still := stopped(p.pid)
				if still {
					unix.Close(p.fd)
				}
				return still
			})
			if len(all) == 0 {
				return nil // a stopped process cannot have started another one since the list was read
			}
			var errs []error
			var names []string
			for _, p := range all {
				errs = append(errs, p.signal(unix.SIGSTOP))
				names = append(names, strconv.Itoa(p.pid))
			}
			closeAll(all)
			if time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("processes %s have not stopped within %s", strings.Join(names, ", "), patience))
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // the kernel has no such event for a process that is not the parent
		}
	})
}

// stopped reports whether no thread of the process runs, or will run before a SIGCONT.
func stopped(pid int) bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
	if err != nil {
		return false
	}
	for _, dir := range threads {
		stat, err := status(dir)
		if err == nil && !strings.Contains("TtZX", stat.state) {
			return false
		}
	}
	return true
}

// Thaw ends Freeze, and any other SIGSTOP of the host's processes.
func (h *Host) Thaw() error {
	return h.held("thaw", func(a *anchor) error {
		all, err := processes(a.holds)
		if err != nil {
			return err
		}
		defer closeAll(all)
		var errs []error
		for _, p := range all {
			errs = append(errs, p.signal(unix.SIGCONT))
		}
		return errors.Join(errs...)
	})
}

// held calls f with the anchor, and keeps the host from being destroyed meanwhile.
func (h *Host) held(verb string, f func(*anchor) error) error {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.anchor == nil {
		return h.destroyed(verb)
	}
	if err := f(h.anchor); err != nil {
		return fmt.Errorf("%s host %s: %w", verb, h.Name, err)
	}
	return nil
}
