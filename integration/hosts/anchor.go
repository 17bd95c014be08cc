package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netns"
)

// anchor is the process that keeps a host's mount and UTS namespaces while nothing else runs there.
type anchor struct {
	cmd      *exec.Cmd
	stdin    io.Closer // the anchor ends when this closes, and so when this process ends
	mnt, net string    // the kernel's names of its namespaces
}

// prepare sets up a host in new namespaces. sweep recognizes a host's processes by the mount of /run, so this mount
// must never be among the machine's mounts: every process would have it. Forwarding is turned off, because a new
// network namespace inherits it from the machine, where Docker turns it on, and hosts would forward packets.
const prepare = `
exec 2>&1
set -e
if [ "$(readlink /proc/self/ns/mnt)" = "$3" ]; then echo "the mounts are the machine's"; exit 1; fi
mount -t tmpfs -o mode=755 "$1" /run
echo "$2" >/proc/sys/kernel/hostname
echo 0 >/proc/sys/net/ipv4/ip_forward
echo ready
exec cat >/dev/null
`

// drop starts an anchor in a network namespace.
func drop(ns netns.NsHandle, hostname string) (*anchor, error) {
	id, err := self()
	if err != nil {
		return nil, err
	}
	machine, err := namespaceOf(os.Getpid(), "mnt")
	if err != nil {
		return nil, fmt.Errorf("read the mount namespace: %w", err)
	}
	a := &anchor{cmd: exec.Command("sh", "-c", prepare, "sh", id.mark(hostname), hostname, machine)}
	a.cmd.Dir = "/"
	// Unsharing this way first makes all mounts private, whatever their propagation on the machine is. In a process group
	// of its own, the anchor does not get Ctrl-C from the terminal.
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS, Setpgid: true}
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the anchor: %w", err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the anchor: %w", err)
	}
	if err := within(ns, a.cmd.Start); err != nil {
		return nil, fmt.Errorf("start the anchor (in a container this needs --privileged): %w", err)
	}
	out := bufio.NewReader(stdout)
	if line, _ := out.ReadString('\n'); line != "ready\n" {
		rest, _ := io.ReadAll(out)
		said := strings.Join(strings.Fields(line+string(rest)), " ")
		return nil, errors.Join(fmt.Errorf("prepare the anchor: %s", said), a.raise())
	}
	if a.mnt, err = namespaceOf(a.pid(), "mnt"); err == nil {
		a.net, err = namespaceOf(a.pid(), "net")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the anchor: %w", err), a.raise())
	}
	return a, nil
}

func (a *anchor) pid() int { return a.cmd.Process.Pid }

// raise ends the anchor. If nothing else runs on the host, that removes its mounts.
func (a *anchor) raise() error {
	err := a.cmd.Process.Kill()
	_ = a.cmd.Wait() // the error is that it was killed; Wait also closes the pipes
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
