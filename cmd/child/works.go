package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Work is a task for a child. It reads an order from standard input and answers on standard output, in JSON.
type Work struct {
	Name  string // the program's first argument
	Short string // the help text
	do    func(ctx context.Context, in *json.Decoder, lg *zap.Logger) (any, error)
}

// NewWork returns a work whose orders are of a type.
func NewWork[Order any](name, short string,
	do func(ctx context.Context, order Order, lg *zap.Logger) (any, error)) Work {
	return Work{name, short, func(ctx context.Context, in *json.Decoder, lg *zap.Logger) (any, error) {
		var order Order
		if err := in.Decode(&order); err != nil {
			return nil, fmt.Errorf("read order: %w", err)
		}
		return do(ctx, order, lg)
	}}
}

// Works are the works of this package.
var Works = []Work{
	NewWork(drillCommand, "Restore and start the database of a drill; run by `snapshot drill`", drill),
	NewWork(replayCommand, "Apply a log to a copy of its database; run by a recovery", replay),
	NewWork(examineCommand, "Check the database of a backup; run by whatever verifies one", examine),
}

// Run does the work in this process.
func (w Work) Run(ctx context.Context, in io.Reader, out, problems io.Writer) error {
	lg := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m"}),
		zapcore.AddSync(problems), zapcore.ErrorLevel))
	answer, err := w.do(ctx, json.NewDecoder(in), lg)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer)
}

// drillSpec is the member that a drill starts. It listens nowhere and has no peers, so its names and URL do not matter.
var drillSpec = plan.Spec{Slot: "drill", Token: "drill", Peers: map[string]string{"drill": "http://127.0.0.1:2380"}}

func drill(ctx context.Context, order drillOrder, lg *zap.Logger) (any, error) {
	// The member that serves has priority, also on the disk: by default, the I/O priority follows from this one
	// (ioprio_set(2)). An error does not matter.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, 19)
	return embedded.Rehearse(ctx, order.Dir, drillSpec, order.Revision, lg)
}

func replay(ctx context.Context, order replayOrder, lg *zap.Logger) (any, error) {
	return embedded.Replay(ctx, order.From, order.Dir, lg)
}

func examine(ctx context.Context, order examineOrder, _ *zap.Logger) (any, error) {
	if err := confine(); err != nil {
		return nil, err
	}
	content, err := snapshot.Examine(ctx, os.NewFile(3, "database"), order.Size)
	if err != nil {
		return examineAnswer{Problem: err.Error()}, nil
	}
	return examineAnswer{Content: content}, nil
}

// examineMemory is how many bytes the child may allocate. The database is mapped and does not count. A database of a
// terabyte needs about 100 MiB.
const examineMemory = 1 << 30

// confine limits the memory of this process, and disables core files, which would contain data of the database.
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
