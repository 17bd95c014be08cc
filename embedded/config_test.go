package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/invalid"
)

// What package settings repeats of etcd agrees with etcd.
func TestSettingsAreEtcds(t *testing.T) {
	want, got := embed.NewConfig(), settings.Default()
	if got.HeartbeatInterval != want.TickMs || got.ElectionTimeout != want.ElectionMs ||
		got.SnapshotCount != want.SnapshotCount || got.MaxTxnOps != want.MaxTxnOps ||
		got.MaxRequestBytes != want.MaxRequestBytes || got.QuotaBackendBytes != want.QuotaBackendBytes ||
		got.Metrics != want.Metrics || got.AutoCompactionRetention != embed.DefaultAutoCompactionRetention {
		t.Errorf("defaults differ from etcd's: %+v", got)
	}
	accepted := func(change func(c *settings.Config)) error {
		c := settings.Default()
		change(&c)
		return invalid.Join(c.Validate)
	}
	for _, mode := range []string{embed.CompactorModePeriodic, embed.CompactorModeRevision} {
		if err := accepted(func(c *settings.Config) { c.AutoCompactionMode = mode }); err != nil {
			t.Error(err)
		}
	}
	known := features.NewDefaultServerFeatureGate("test", nil).(featuregate.MutableFeatureGate).GetAll()
	all := map[string]bool{}
	for f := range known {
		all[string(f)] = true
	}
	if err := accepted(func(c *settings.Config) { c.FeatureGates = all }); err != nil {
		t.Errorf("etcd's own features: %v", err)
	}
	_, listed, _ := strings.Cut(accepted(func(c *settings.Config) { c.FeatureGates = map[string]bool{"X": true} }).Error(), "one of ")
	listed, _, _ = strings.Cut(listed, ", got")
	for name := range strings.SplitSeq(listed, ", ") {
		if !all[name] {
			t.Errorf("%s is no feature of this etcd", name)
		}
	}
}

// etcd gets what is configured.
func TestEtcdConfig(t *testing.T) {
	n := newNode(t, "a")
	n.cfg.FeatureGates = map[string]bool{"LeaseCheckpoint": true}
	n.cfg.LogLevel = "debug"
	n.spec.Peers["b"] = "http://b:2380"
	ec, err := etcdConfig(n.resolved(), n.spec, n.lg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ec.Validate(); err != nil {
		t.Fatal(err)
	}
	if ec.LogLevel == "debug" || ec.UnsafeNoFsync || ec.ForceNewCluster || !ec.StrictReconfigCheck || !ec.PreVote || len(ec.ListenMetricsUrls) != 0 || ec.SocketOpts.ReusePort {
		t.Errorf("unsafe: %+v", ec)
	}
	if want := "a=" + n.spec.PeerURL + ",b=http://b:2380"; ec.InitialCluster != want {
		t.Errorf("initial cluster: got %q, want %q", ec.InitialCluster, want)
	}
	if !ec.ServerFeatureGate.Enabled("LeaseCheckpoint") {
		t.Error("feature gate is off")
	}
	if !ec.ServerFeatureGate.Enabled("CompactHashCheck") {
		t.Error("the check for corruption that costs nothing is off")
	}
	n.cfg.FeatureGates = map[string]bool{"CompactHashCheck": false}
	if ec, err = etcdConfig(n.resolved(), n.spec, n.lg, nil); err != nil || ec.ServerFeatureGate.Enabled("CompactHashCheck") {
		t.Errorf("CompactHashCheck cannot be switched off: %v", err)
	}
}

func TestEtcdLogger(t *testing.T) {
	for _, tc := range []struct {
		process zapcore.Level
		level   string
		want    zapcore.Level
	}{
		{zap.InfoLevel, "info", zap.InfoLevel},
		{zap.InfoLevel, "warn", zap.WarnLevel},
		{zap.InfoLevel, "debug", zap.InfoLevel},
	} {
		lg := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&bytes.Buffer{}), tc.process))
		if got := zapcore.LevelOf(etcdLogger(lg, tc.level, plan.Spec{}, lastWord{killed: newLatch()},
			newLatch()).Core()); got != tc.want {
			t.Errorf("%v at %s: got %v, want %v", tc.process, tc.level, got, tc.want)
		}
	}
}

// etcd ends the process with Fatal or Panic. This is the last message that an operator reads. There is none if the
// member was killed for a reason that was logged before.
func TestLastWord(t *testing.T) {
	const child = "EMBEDDED_TEST_LAST_WORD"
	if how := os.Getenv(child); how != "" {
		killed := newLatch()
		last := lastWord{killed: killed, note: func(reason string) { fmt.Println("noted:", reason) }}
		lg := etcdLogger(zap.Must(zap.NewProduction()), "info", plan.Spec{Slot: "b", DataDir: "/volume/etcd"}, last,
			newLatch())
		switch how {
		case "fatal":
			lg.Fatal("failed to save Raft hard state", zap.Error(errors.New("no space left")))
		case "killed":
			killed.drop()
			fallthrough
		case "panic":
			lg.Panic("failed to close Raft storage", zap.Error(errors.New("no space left")))
		}
		return
	}
	for how, reason := range map[string]string{"fatal": "failed to save Raft hard state", "panic": "failed to close Raft storage", "killed": ""} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLastWord$")
		cmd.Env = append(os.Environ(), child+"="+how)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); err == nil || got != 1 {
			t.Errorf("%s: exit code: got %d, want 1", how, got)
		}
		if strings.Contains(string(out), "goroutine ") || reason == "" && len(out) > 0 {
			t.Errorf("%s: said %s", how, out)
		}
		for _, want := range []string{"etcd ended this process", `"slot":"b"`, `"data-dir":"/volume/etcd"`, reason + ": no space left", "noted: etcd of slot b ended it: " + reason} {
			if reason != "" && !strings.Contains(string(out), want) {
				t.Errorf("%s: last words lack %q:\n%s", how, want, out)
			}
		}
	}
}

// A member that is founded and stopped logs nothing that an operator has to look into, nor does one that is removed. A
// listener that fails, for another reason than being closed, is still reported.
func TestCalm(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	core, told := observer.New(zap.WarnLevel)
	n := newNode(t, "a")
	n.lg = zap.New(core)
	n.run(t).awaitReady(t)
	for _, e := range told.TakeAll() {
		t.Errorf("at the start: %s %v", e.Message, e.ContextMap())
	}
	await(t, "the cluster has a version, without which nobody joins", func() bool { return n.Status().ClusterVersion != "" })
	b := newNode(t, "b")
	id, err := n.AddLearner(soon(t), b.spec.PeerURL)
	check(t, err)
	b.lg = zap.New(core)
	b.spec.Join, b.spec.Peers = true, map[string]string{"a": n.spec.PeerURL, "b": b.spec.PeerURL}
	b.run(t).awaitReady(t)
	told.TakeAll() // a joiner cannot be reached before it runs
	check(t, n.Remove(soon(t), id))
	awaitClosed(t, "b ends by itself", b.Done())
	for _, e := range told.TakeAll() {
		if slices.Contains(ofListeners, e.Message) {
			t.Errorf("of a removed member: %s %v", e.Message, e.ContextMap())
		}
	}
	stop(t, n, 0)
	for _, e := range told.TakeAll() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); !strings.Contains(text, "removed member") { // b's last words may come late
			t.Errorf("at the stop: %s", text)
		}
	}
}

// What etcd repeats does not fill the log.
func TestRepeatedLines(t *testing.T) {
	core, told := observer.New(zap.InfoLevel)
	lg := zap.New(newCalm(core, newLatch(), newLatch()))
	for range 100 {
		lg.Warn("failed to apply request")
		lg.Warn(unpublished, zap.Error(errors.New("etcdserver: too many requests")))
	}
	lg.Error("setting up serving from embedded etcd failed.", zap.Error(errors.New("no such device")))
	for text, want := range map[string]int{
		"failed to apply request": 10, unpublished: 1, "setting up serving from embedded etcd failed.": 1,
	} {
		if got := told.FilterMessage(text).Len(); got != want {
			t.Errorf("%s: told %d times, want %d", text, got, want)
		}
	}
}
