package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoIsolation means that this user may not make a network namespace.
var errNoIsolation = errors.New("no network of its own can be made here: run it as root, outside of a container, " +
	"or where users may make namespaces")

// Isolated runs a child in a network namespace of its own, from which nothing else can be reached, and decodes its
// answer. The child's error output goes to progress. The child ends with ctx and with this process.
func Isolated(ctx context.Context, command string, order, answer any, progress io.Writer) error {
	cmd, said, err := newChild(ctx, command, order)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // see runChild
	defer runtime.UnlockOSThread()
	cmd.Stderr, cmd.SysProcAttr.Cloneflags = progress, unix.CLONE_NEWNET
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = isolatedGrace
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("%w: %w", errNoIsolation, err)
		}
		return err
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return decode(said, answer)
}

// Loopback brings up the loopback interface in a new network namespace.
func Loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err == nil {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	return nil
}

// EndWithParent puts a child into a process group of its own, and makes the kernel send it a signal when this process
// ends, even by kill -9.
func EndWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: signal}
}
