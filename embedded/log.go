package embedded

import (
	"os"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLogger is the logger etcd writes to.
func etcdLogger(lg *zap.Logger, level string, spec Spec) *zap.Logger {
	opts := []zap.Option{zap.WithFatalHook(lastWord{lg, spec}), zap.WrapCore(func(core zapcore.Core) zapcore.Core { return discreet{core} })}
	// IncreaseLevel complains when asked to lower the level.
	if lvl, err := zapcore.ParseLevel(level); err == nil && lvl > zapcore.LevelOf(lg.Core()) {
		opts = append(opts, zap.IncreaseLevel(lvl))
	}
	return lg.Named("etcd").WithOptions(opts...)
}

// lastWord ends the process when etcd says Fatal: on a disk that is full, failing or
// corrupt. Carrying on is no choice, a recovered etcd leaks its listeners and locks.
type lastWord struct {
	lg   *zap.Logger
	spec Spec
}

// OnWrite says which member ended and what to do, and exits with 1.
func (w lastWord) OnWrite(ce *zapcore.CheckedEntry, _ []zapcore.Field) {
	w.lg.Error("etcd ended this process: look at its line above, check the volume for space and I/O errors, and start the node again; a volume that cannot be read is to be replaced, not repaired",
		zap.String("slot", w.spec.Slot), zap.String("data-dir", w.spec.DataDir), zap.String("reason", ce.Message))
	_ = w.lg.Sync()
	os.Exit(1)
}

// calm drops the errors that etcd logs for each of its listeners whenever it is stopped: an operator who
// reads it takes a clean stop for a failure.
type calm struct {
	zapcore.Core
	ending *latch
}

func (c calm) With(fields []zapcore.Field) zapcore.Core { return calm{c.Core.With(fields), c.ending} }

func (c calm) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.ending.dropped() && (e.Message == "setting up serving from embedded etcd failed." || strings.HasSuffix(e.Message, "grpc server due to error")) {
		return ce
	}
	return c.Core.Check(e, ce)
}
