package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

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
