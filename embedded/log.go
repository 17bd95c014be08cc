package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

	"holdfast/embedded/plan"
)

// etcdLogger is the logger etcd writes to. ending is dropped when the member is stopped.
func etcdLogger(lg *zap.Logger, level string, spec plan.Spec, last lastWord, ending *latch) *zap.Logger {
	last.lg, last.spec = lg, spec
	opts := []zap.Option{zap.WithFatalHook(last), zap.WithPanicHook(last),
		zap.WrapCore(func(core zapcore.Core) zapcore.Core { return newCalm(core, ending, last.killed) })}
	// IncreaseLevel logs an error if it is asked to lower the level.
	if lvl, err := zapcore.ParseLevel(level); err == nil && lvl > zapcore.LevelOf(lg.Core()) {
		opts = append(opts, zap.IncreaseLevel(lvl))
	}
	return lg.Named("etcd").WithOptions(opts...)
}

// lastWord ends the process when etcd logs Fatal or Panic, as it does on a disk that is full, failing or corrupt.
// Carrying on is no option, because a recovered etcd leaks its listeners and locks. And the stack trace of a panic
// tells an operator nothing.
type lastWord struct {
	lg     *zap.Logger
	spec   plan.Spec
	killed *latch              // dropped when the member was killed and the reason was logged
	note   func(reason string) // nil, or stores the reason outside the volume
}

// OnWrite logs which member ended and what to do, and exits with status 1.
func (w lastWord) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	if !w.killed.dropped() {
		reason := ce.Message
		for _, f := range fields {
			if err, ok := f.Interface.(error); ok {
				reason += ": " + err.Error()
			}
		}
		w.lg.Error("etcd ended this process: check the volume for space and I/O errors, and start the node again; a volume "+
			"that cannot be read is to be replaced, not repaired",
			zap.String("slot", w.spec.Slot), zap.String("data-dir", w.spec.DataDir), zap.String("reason", reason))
		if w.note != nil {
			w.note(fmt.Sprintf("etcd of slot %s ended it: %s", w.spec.Slot, reason))
		}
	}
	_ = w.lg.Sync()
	os.Exit(1)
}

// calm drops or demotes messages of etcd that follow from what holdfast does and look like failures. It also keeps
// repeated warnings from flooding the log. After a member was killed for a dead disk, it drops etcd's panics about that
// disk. It drops the debug lines in which etcd logs each request as it applies it: they contain values, which are the
// cluster's secrets, and passwords (etcdserver/apply/apply.go; up to 3.6 also applyEntryNormal in
// etcdserver/server.go). All other lines of etcd leave these out.
type calm struct {
	zapcore.Core
	daily          *rate.Sometimes // passes unpublished once a day
	ending, killed *latch
}

// newCalm returns a calm core. Each minute it passes the first ten lines with the same message: while the alarm NOSPACE
// is up, etcd warns of each write that it refuses.
func newCalm(core zapcore.Core, ending, killed *latch) zapcore.Core {
	return calm{zapcore.NewSamplerWithOptions(core, time.Minute, 10, 0), &rate.Sometimes{Interval: 24 * time.Hour}, ending,
		killed}
}

func (c calm) With(fields []zapcore.Field) zapcore.Core {
	c.Core = c.Core.With(fields)
	return c
}

func (c calm) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	switch {
	case c.killed.dropped() && e.Level >= zapcore.DPanicLevel, c.ending.dropped() && slices.Contains(atStop, e.Message):
		return ce
	case e.Level == zapcore.DebugLevel && (e.Message == "Apply" || e.Message == "applyEntryNormal"):
		return ce
	case slices.Contains(ofListeners, e.Message) && c.Core.Enabled(e.Level):
		return ce.AddCore(e, closing{c.Core})
	case slices.Contains(byDesign, e.Message):
		e.Level = zapcore.DebugLevel
	case e.Message == unpublished:
		c.daily.Do(func() { ce = c.Core.Check(e, ce) })
		return ce
	}
	return c.Core.Check(e, ce)
}

// unpublished appears at the start of a member, and again and again until it has caught up with its log ("too many
// requests"), or until there is a leader. That may take long, and holdfast says itself what the member waits for.
const unpublished = "failed to publish local member to cluster through raft"

var (
	// byDesign appears at the start. The single port serves both gRPC and HTTP, and the token is etcd's default. A new
	// database has no schema version for some seconds; etcd retries, and holdfast status shows the storage version.
	byDesign = []string{
		"Running http and grpc server on single port. This is not recommended for production.",
		"simple token is not cryptographically signed",
		"Failed to detect storage schema version. Please wait till wal snapshot before upgrading cluster.",
		"Failed to detect schema version",
		"failed to update storage version",
	}
	// atStop appears for each peer, and for etcd's last steps, when the member is stopped.
	atStop = []string{
		"closed TCP streaming connection with remote peer",
		"lost TCP streaming connection with remote peer",
		"peer became inactive (message send to peer failed)",
		unpublished,
		"stopped publish because server is stopping",
	}
	// ofListeners appears for each listener when etcd ends, even by itself. It is news only if the reason is not that
	// the listener was closed.
	ofListeners = []string{
		"setting up serving from embedded etcd failed.",
		"stopping insecure grpc server due to error", "stopped insecure grpc server due to error",
		"stopping secure grpc server due to error", "stopped secure grpc server due to error",
	}
)

// closing drops messages that only say that a listener was closed.
type closing struct{ zapcore.Core }

func (c closing) Write(e zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		err, ok := f.Interface.(error)
		if ok && (errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) ||
			err.Error() == "mux: server closed") { // of soheilhy/cmux
			return nil
		}
	}
	return c.Core.Write(e, fields)
}
