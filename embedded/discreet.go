package embedded

import "go.uber.org/zap/zapcore"

// discreet drops the lines in which etcd, at level debug, logs each request that it applies as it is: with the values,
// which are the secrets of the cluster, and with passwords (etcdserver/apply/apply.go; up to 3.6 also
// applyEntryNormal in etcdserver/server.go). All its other lines leave them out.
type discreet struct{ zapcore.Core }

func (d discreet) With(fields []zapcore.Field) zapcore.Core { return discreet{d.Core.With(fields)} }

func (d discreet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.DebugLevel && (e.Message == "Apply" || e.Message == "applyEntryNormal") {
		return ce
	}
	return d.Core.Check(e, ce)
}
