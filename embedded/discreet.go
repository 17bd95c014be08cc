package embedded

import "go.uber.org/zap/zapcore"

// discreet drops the debug lines in which etcd logs each request as it applies it. They contain values, which are the
// cluster's secrets, and passwords (etcdserver/apply/apply.go; up to 3.6 also applyEntryNormal in
// etcdserver/server.go). All other lines of etcd leave these out.
type discreet struct{ zapcore.Core }

func (d discreet) With(fields []zapcore.Field) zapcore.Core { return discreet{d.Core.With(fields)} }

func (d discreet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.DebugLevel && (e.Message == "Apply" || e.Message == "applyEntryNormal") {
		return ce
	}
	return d.Core.Check(e, ce)
}
