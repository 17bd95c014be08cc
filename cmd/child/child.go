package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/cmd/config"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// examineCommand is the child that opens a database from a store: anyone who can write there can make one that is meant
// to crash its reader, and the reader would be the member that serves.
const examineCommand = "examine-child"

// examineOrder is answered with an [examineAnswer]. The database is the child's descriptor 3.
type examineOrder struct {
	Size int64 `json:"size"` // in bytes
}

// examineAnswer is what a child has found out.
type examineAnswer struct {
	Content snapshot.Content `json:"content"`
	Problem string           `json:"problem,omitempty"` // what speaks against the database
}

// Examine is [snapshot.Examine] in a process of its own, which a crafted database may crash, fill or hold up, and not
// us. It leaves f open.
func Examine(ctx context.Context, f *os.File, size int64) (snapshot.Content, error) {
	limit := examinePatience + time.Duration(size/examineSlowest)*time.Second
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	var got examineAnswer
	err := runChild(limited, examineCommand, "/", examineOrder{Size: size}, &got, f)
	switch {
	case err == nil && got.Problem == "":
		return got.Content, nil
	case err == nil:
		return snapshot.Content{}, errors.New(got.Problem)
	case crashed(err):
		return snapshot.Content{}, fmt.Errorf("the check process crashed on this database: %w", err)
	}
	return snapshot.Content{}, fmt.Errorf("%w: %w", snapshot.ErrNotExamined, err)
}

// Replay applies the log in the data directory from to the copy of its database in dir, and returns where it ends.
func Replay(ctx context.Context, from, dir string) (end plan.LogEnd, err error) {
	err = runChild(ctx, replayCommand, dir, replayOrder{From: from, Dir: dir}, &end)
	return end, err
}

// crashed says that a child ended over what it read: by a panic, a fatal error of the runtime or a fault. One that was
// killed, as the kernel does when memory is short everywhere, says nothing.
func crashed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok {
		return false
	}
	if status.Signaled() {
		return slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGILL,
			syscall.SIGFPE}, status.Signal())
	}
	return status.ExitStatus() == goCrash
}

// examinePatience and examineSlowest, in bytes a second, bound its time: a disk that is slower than that is broken.
const (
	examinePatience = 5 * time.Minute
	examineSlowest  = 1 << 20
)

// goCrash is the exit code of a Go program that panics, or that the runtime gives up.
const goCrash = 2

// The commands that children run. They are nobody else's.
const (
	drillCommand  = "drill-child"
	replayCommand = "replay-child"
)

// drillOrder is answered with an [embedded.Trial].
type drillOrder struct {
	Dir      string `json:"dir"` // a data directory that holds nothing but a database
	Revision int64  `json:"revision"`
}

// replayOrder is answered with an [plan.LogEnd].
type replayOrder struct {
	From string `json:"from"` // the data directory whose log is replayed
	Dir  string `json:"dir"`  // another, which holds nothing but a copy of its database
}

// errNoRoom says that the disk was too small for a drill, which says nothing of the backup.
var errNoRoom = errors.New("no room: set snapshot.scratch to a disk with room for the database and some MiB more")

// childGrace is how long a child that was killed may keep us waiting with its open pipes.
const childGrace = 5 * time.Second

// isolatedGrace is how long an isolated child may take to end those that it has started.
const isolatedGrace = 20 * time.Second

// runChild runs a child in the directory dir and decodes its answer. It is killed when ctx ends or this process does.
// It has a process group of its own, so that no signal meant for us reaches it, and nothing of our configuration. The
// files are its descriptors from 3 on. Whatever ends it is an error here.
func runChild(ctx context.Context, command, dir string, order, answer any, files ...*os.File) error {
	cmd, said, err := newChild(ctx, command, order)
	if err != nil {
		return err
	}
	// Pdeathsig is of the thread that started the child: it must live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	words := &firstWords{}
	cmd.Dir, cmd.ExtraFiles, cmd.Stderr = dir, files, words
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = childGrace
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
	return decode(said, answer)
}

// newChild is a child that is not started yet, in a process group of its own, and what it answers.
func newChild(ctx context.Context, command string, order any) (cmd *exec.Cmd, said *bytes.Buffer, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	input, err := json.Marshal(order)
	if err != nil {
		return nil, nil, err
	}
	cmd, said = exec.CommandContext(ctx, exe, command), &bytes.Buffer{}
	cmd.Env, cmd.Stdin, cmd.Stdout = WithoutOurs(os.Environ()), bytes.NewReader(input), said
	cmd.SysProcAttr = EndWithParent()
	cmd.SysProcAttr.Setpgid = true
	return cmd, said, nil
}

func decode(said *bytes.Buffer, answer any) error {
	if err := json.Unmarshal(said.Bytes(), answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// WithoutOurs leaves out the variables that would change the nodes' configuration behind the file's back.
func WithoutOurs(environ []string) []string {
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
