package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// owner identifies a process for good: a process ID may be used again, but not with the same start time. It is valid in
// one PID namespace only.
type owner struct {
	namespace string // of process ids: "pid:[4026531836]"
	pid       int
	start     string // in clock ticks since boot
}

// origin begins every mark.
const origin = "holdfast-host"

// mark returns the mark of this owner's links and mounts for a host.
func (o owner) mark(host string) string {
	return fmt.Sprintf("%s/%s/%d/%s/%s", origin, o.namespace, o.pid, o.start, host)
}

func parseMark(mark string) (owner, bool) {
	parts := strings.Split(mark, "/")
	if len(parts) != 5 || parts[0] != origin {
		return owner{}, false
	}
	pid, err := strconv.Atoi(parts[2])
	return owner{parts[1], pid, parts[3]}, err == nil
}

// self returns this process as an owner.
func self() (owner, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return owner{}, fmt.Errorf("read the PID namespace: %w", err)
	}
	stat, err := status("/proc/self")
	if err != nil {
		return owner{}, fmt.Errorf("read the start time: %w", err)
	}
	return owner{namespace, os.Getpid(), stat.start}, nil
}

// dead reports whether the owner has certainly ended, as seen from the PID namespace here.
func (o owner) dead(here string) bool {
	if o.namespace != here {
		return false
	}
	stat, err := status(filepath.Join("/proc", strconv.Itoa(o.pid)))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return stat.start != o.start || stat.state == "Z" || stat.state == "X"
}

// stat is the kernel's information about a process or thread: its state as a letter, its parent's process ID, its start
// time in clock ticks since boot, and whether it is exiting or a zombie.
type stat struct {
	state, parent, start string
	exiting              bool
}

// status reads the stat of a process or thread from its directory in /proc.
func status(dir string) (stat, error) {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return stat{}, err
	}
	// The second field is the program's name in parentheses, with anything in it; see proc_pid_stat(5).
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("read %s/stat: it has %d fields after the name", dir, len(fields))
	}
	const exiting = 0x4 // PF_EXITING of the kernel's sched.h
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("read %s/stat: flags: %w", dir, err)
	}
	return stat{fields[0], fields[1], fields[19], flags&exiting != 0}, nil
}

// sweep removes what owners that have ended left: processes, and links that the kernel has not removed yet.
func sweep(here *space) error {
	me, err := self()
	if err != nil {
		return err
	}
	abandoned := func(mark string) bool {
		o, ok := parseMark(mark)
		return ok && o.dead(me.namespace)
	}
	if err := kill(func(pid int) bool { return abandoned(markOf(pid)) }); err != nil {
		return err
	}
	links, err := whole(func() ([]netlink.Link, error) { return here.LinkList() })
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		if !abandoned(link.Attrs().Alias) {
			continue
		}
		if err := here.remove(link.Attrs().Name); err != nil {
			return err
		}
	}
	return nil
}

// markOf returns the mark in the mounts that a process sees, or "".
func markOf(pid int) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return "" // it is gone
	}
	for line := range strings.Lines(string(data)) {
		_, after, found := strings.Cut(line, " - tmpfs ")
		source, _, _ := strings.Cut(after, " ")
		if found && strings.HasPrefix(source, origin+"/") {
			return source
		}
	}
	return ""
}
