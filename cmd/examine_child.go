package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"holdfast/snapshot"
)

// examineCommand is the child that opens a database from a store: whoever can write there can make one that is meant to
// crash its reader, and the reader would be the member that serves.
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

const (
	// examineMemory is what the child may allocate, in bytes; the database is mapped, and not counted. About 100 MiB are
	// used for a terabyte.
	examineMemory = 1 << 30
	// examinePatience and examineSlowest, in bytes a second, bound its time: a disk that is slower than that is broken.
	examinePatience = 5 * time.Minute
	examineSlowest  = 1 << 20
)

func newExamineChildCommand() *cobra.Command {
	return newChildCommand(examineCommand, "Check the database of a backup; run by whatever verifies one",
		func(c *cobra.Command, order examineOrder, _ *zap.Logger) (any, error) {
			if err := confine(); err != nil {
				return nil, err
			}
			content, err := snapshot.Examine(c.Context(), os.NewFile(3, "database"), order.Size)
			if err != nil {
				return examineAnswer{Problem: err.Error()}, nil
			}
			return examineAnswer{Content: content}, nil
		})
}

// confine bounds the memory of this process, and keeps what is in it out of a core file.
func confine() error {
	debug.SetMemoryLimit(examineMemory / 2)
	for resource, most := range map[int]uint64{unix.RLIMIT_DATA: examineMemory, unix.RLIMIT_CORE: 0} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			return fmt.Errorf("read resource limit %d: %w", resource, err)
		}
		limit.Cur = min(most, limit.Max)
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return fmt.Errorf("set resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// examineApart is [snapshot.Examine] in a process of its own, which a crafted database may crash, fill or hold up, and not
// us. It leaves f open.
func examineApart(ctx context.Context, f *os.File, size int64) (snapshot.Content, error) {
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
		return snapshot.Content{}, fmt.Errorf("it crashes its reader: %w", err)
	}
	return snapshot.Content{}, fmt.Errorf("%w: %w", snapshot.ErrNotExamined, err)
}

// crashed says that a child ended over what it read: by a panic, a fatal error of the runtime or a fault. One that was
// killed, as the kernel does when memory is short everywhere, says nothing.
func crashed(err error) bool {
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok {
		return false
	}
	if status.Signaled() {
		return slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGILL, syscall.SIGFPE}, status.Signal())
	}
	return status.ExitStatus() == goCrash
}

// goCrash is the exit code of a Go program that panics, or that the runtime gives up.
const goCrash = 2
