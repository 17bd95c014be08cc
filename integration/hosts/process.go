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

// patience is how long processes have to end or to stop once the kernel was told. Only one that waits in the kernel
// for something that does not come takes as long.
const patience = 10 * time.Second

// process is one that the descriptor keeps from being mistaken for a later one of the same id.
type process struct{ pid, fd int }

// processes returns the running ones that fit. The caller closes them.
//
// Whatever fits says, none is returned that sees the mounts of this process, but for its children on their way to a
// host. All of the machine's own do, and this one, and none on a host does: a mistake about namespaces must not become
// the end of the machine.
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
		if !meant(pid) { // the one that did ended before it was opened
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

// ended waits until the process has: all its threads, with their files closed. It may be a zombie.
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

// kill kills the processes that fit, also those that they start meanwhile, and waits until none is left.
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

// namespaceOf is what the kernel calls a namespace of a process. A zombie has none.
func namespaceOf(pid int, kind string) (string, error) {
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", kind))
}

// entering is the process id of the anchor whose host a Command of this process is just entering, "" for any other
// process. When Start returns, the command may be no further than that. Ask this before the process's namespaces: what
// has become the program meanwhile is in the host's by then.
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
		case len(line) == 0: // for a moment, while it becomes another program
			continue
		case len(args) > 3 && slices.Equal(args[:3], []string{"sh", "-c", enter}):
			return args[3]
		case len(args) > 2 && slices.Equal(args[:2], []string{"nsenter", "--target"}):
			return args[2]
		}
		return ""
	}
}

// holds reports whether a process other than the anchor is on its host: on its network, or among its mounts, or about
// to be. One is enough, for a process may have left the other for a namespace of its own.
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

// Kill is a power cut as far as processes notice: all of the host's are killed at once, with no chance to say
// anything, and are gone when it returns. The mounts stay, as if everything were started again at once; Reboot
// takes them too.
func (h *Host) Kill() error {
	return h.held("kill", (*anchor).kill)
}

// Reboot is a power cut, and the power is back: like Kill, and the host's mounts are gone and its /run is empty.
// The address and the faults stay. Nothing runs until a Command is started.
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

// Freeze stops every process of the host where it is, and returns when none runs. They do not notice but by the
// clock; what is sent to them waits. Processes that are started on the host later do run.
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
				return nil // and who is stopped has not started another one since the list was read
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
			time.Sleep(time.Millisecond) // the kernel has no event for it that a stranger could wait for
		}
	})
}

// stopped reports whether no thread of the process runs, or will before a SIGCONT.
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

// Thaw ends Freeze, and whatever else has stopped processes of the host with SIGSTOP.
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

// held calls f with the anchor while nobody destroys the host.
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
