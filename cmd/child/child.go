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

// examineCommand names the child that opens a database from a store. Anyone who can write to the store can craft a
// database that crashes its reader, which must not be the process that serves.
const examineCommand = "examine-child"

// examineOrder is answered with an [examineAnswer]. The database is the child's descriptor 3.
type examineOrder struct {
	Size int64 `json:"size"` // in bytes
}

// examineAnswer is the result of a child that examines a database.
type examineAnswer struct {
	Content snapshot.Content `json:"content"`
	Problem string           `json:"problem,omitempty"` // why the database is bad
}

// Examine is [snapshot.Examine] in a process of its own, so that a crafted database can crash, fill or block only that
// process. It leaves f open.
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
	case errors.Is(err, snapshot.ErrNotExamined):
		return snapshot.Content{}, err
	}
	return snapshot.Content{}, fmt.Errorf("%w: %w", snapshot.ErrNotExamined, err)
}

// Replay applies the log in the data directory from to the copy of its database in dir, and returns where it ends.
func Replay(ctx context.Context, from, dir string) (end plan.LogEnd, err error) {
	err = runChild(ctx, replayCommand, dir, replayOrder{From: from, Dir: dir}, &end)
	return end, err
}

// crashed reports whether a child crashed on what it read: by a panic, a fatal error of the runtime or a fault. A child
// that was killed, such as by the kernel when memory is short, does not count.
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

// examinePatience, plus the time to read the database at examineSlowest bytes a second, limits [Examine]. A slower disk
// is broken.
const (
	examinePatience = 5 * time.Minute
	examineSlowest  = 1 << 20
)

// goCrash is the exit code of a Go program after a panic or a fatal error of the runtime.
const goCrash = 2

// The hidden commands that children run.
const (
	drillCommand  = "drill-child"
	replayCommand = "replay-child"
)

// drillOrder is answered with an [embedded.Trial].
type drillOrder struct {
	Dir      string `json:"dir"` // a data directory that contains only a database
	Revision int64  `json:"revision"`
}

// replayOrder is answered with an [plan.LogEnd].
type replayOrder struct {
	From string `json:"from"` // the data directory whose log is replayed
	Dir  string `json:"dir"`  // another one, which contains only a copy of the database
}

// errNoRoom means that the disk was too small for a drill. It says nothing about the backup.
var errNoRoom = errors.New("no room: set snapshot.scratch to a disk with room for the database and some MiB more")

const (
	// childGrace limits the wait for the pipes of a child that was killed.
	childGrace = 5 * time.Second
	// childEnd is how long a child that was killed may take to end. One that waits for a disk that hangs does not end.
	childEnd = 2 * childGrace
)

// isolatedGrace is how long an isolated child may take to end its own children.
const isolatedGrace = 20 * time.Second

// runChild runs a child in the directory dir and decodes its answer. The child is killed when ctx ends or this process
// does. It has a process group of its own, so that it gets no signal meant for this process, and no HOLDFAST_
// variables. The files are its descriptors from 3 on. The error is the reason why the child failed. It wraps
// [snapshot.ErrNotExamined] if that is this machine's: the child could not start or was killed, or a disk failed.
func runChild(ctx context.Context, command, dir string, order, answer any, files ...*os.File) error {
	cmd, said, err := newChild(ctx, command, order)
	if err != nil {
		return err
	}
	words := &firstWords{}
	cmd.Dir, cmd.ExtraFiles, cmd.Stderr = dir, files, words
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = childGrace
	ended := make(chan error, 1)
	go func() {
		// The kernel kills the child (Pdeathsig) when the thread that started it ends, so this thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(childEnd):
			return fmt.Errorf("%w: the child in %s was killed and does not end: its disk hangs: %w",
				snapshot.ErrNotExamined, dir, context.Cause(ctx))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	exit, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return decode(said, answer)
	case words.tell(syscall.ENOSPC, syscall.EDQUOT): // etcd only logs some errors
		return fmt.Errorf("%w: %s", errNoRoom, words)
	case !ran, !exit.Exited() && !crashed(err), words.tell(syscall.EIO, syscall.EROFS):
		return fmt.Errorf("%w: %w: %s", snapshot.ErrNotExamined, err, words)
	}
	return fmt.Errorf("%w: %s", err, words)
}

// newChild returns a child that is not started yet, in a process group of its own, and the buffer for its answer.
func newChild(ctx context.Context, command string, order any) (cmd *exec.Cmd, said *bytes.Buffer, err error) {
	exe, err := program()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	input, err := json.Marshal(order)
	if err != nil {
		return nil, nil, err
	}
	cmd, said = exec.CommandContext(ctx, exe, command), &bytes.Buffer{}
	cmd.Env, cmd.Stdin, cmd.Stdout = WithoutOurs(os.Environ()), bytes.NewReader(input), said
	cmd.SysProcAttr = EndWithParent(syscall.SIGTERM)
	return cmd, said, nil
}

// program returns the path of this program. On Linux, it leads to this program even if its file was replaced: between
// an upgrade and its restart, a node must not take the new program as its child.
func program() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // proc_pid_exe(5)
	}
	return os.Executable()
}

func decode(said *bytes.Buffer, answer any) error {
	if err := json.Unmarshal(said.Bytes(), answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// WithoutOurs returns the environment without HOLDFAST_ variables, which would override a child's configuration.
func WithoutOurs(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, config.VariablePrefix) {
			kept = append(kept, v)
		}
	}
	return kept
}

// firstWords keeps the beginning of a process's error output. A panic prints its reason first, and then a stack of any
// length.
type firstWords struct{ kept bytes.Buffer }

// firstWordsMost is how many bytes are kept.
const firstWordsMost = 16 << 10

func (w *firstWords) Write(p []byte) (int, error) {
	w.kept.Write(p[:min(len(p), firstWordsMost-w.kept.Len())])
	return len(p), nil
}

// tell reports whether the output contains the system's text for one of the errors.
func (w *firstWords) tell(any ...syscall.Errno) bool {
	for _, e := range any {
		if strings.Contains(w.kept.String(), e.Error()) {
			return true
		}
	}
	return false
}

// String returns the reason on one line: everything before the stack of a panic or of a fatal error.
func (w *firstWords) String() string {
	text, _, _ := strings.Cut(w.kept.String(), "\n\ngoroutine ")
	const most = 1000
	if len(text) > most {
		text = text[:most] + " …"
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}
