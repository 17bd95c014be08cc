package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/cmd/config"
)

// errNoRoom says that the disk was too small for a drill, which says nothing of the backup.
var errNoRoom = errors.New("no room: set snapshot.scratch to a disk with room for the database and some MiB more")

// childGrace is how long a child that was killed may keep us waiting with its open pipes.
const childGrace = 5 * time.Second

// runChild runs a child in the directory dir and decodes its answer. It is killed when ctx ends or this process does. It
// has a process group of its own, so that no signal meant for us reaches it, and nothing of our configuration. The files
// are its descriptors from 3 on. Whatever ends it is an error here.
func runChild(ctx context.Context, command, dir string, order, answer any, files ...*os.File) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	input, err := json.Marshal(order)
	if err != nil {
		return err
	}
	// See demoNode.keep for the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, exe, command)
	cmd.Dir, cmd.Env = dir, withoutOurs(os.Environ())
	cmd.ExtraFiles = files
	cmd.SysProcAttr = orphanAttr()
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = childGrace
	said, words := &bytes.Buffer{}, &firstWords{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), said, words
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && words.tell(syscall.ENOSPC, syscall.EDQUOT) { // some of what etcd finds out, it only logs
		return fmt.Errorf("%w: %s", errNoRoom, words)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, words)
	}
	if err := json.Unmarshal(said.Bytes(), answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// withoutOurs leaves out the variables that would change the nodes' configuration behind the file's back.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, config.VariablePrefix) {
			kept = append(kept, v)
		}
	}
	return kept
}

// firstWords keeps the beginning of what a process says on its way out: a panic says why first, and then where, at any
// length.
type firstWords struct{ kept bytes.Buffer }

// firstWordsMost bounds what is kept, in bytes.
const firstWordsMost = 16 << 10

func (w *firstWords) Write(p []byte) (int, error) {
	w.kept.Write(p[:min(len(p), firstWordsMost-w.kept.Len())])
	return len(p), nil
}

// tell reports whether one of the errors is among the words, as the system words it.
func (w *firstWords) tell(any ...syscall.Errno) bool {
	for _, e := range any {
		if strings.Contains(w.kept.String(), e.Error()) {
			return true
		}
	}
	return false
}

// String is the reason on one line: all up to where a panic or a fatal error of the runtime begins to say where.
func (w *firstWords) String() string {
	text, _, _ := strings.Cut(w.kept.String(), "\n\ngoroutine ")
	const most = 1000
	if len(text) > most {
		text = text[:most] + " …"
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}
