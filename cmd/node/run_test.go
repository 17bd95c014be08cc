package node

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
)

// load reads a configuration of environment variables, with a directory of its own and no fixed port.
func load(t *testing.T, dir string, environ ...string) *config.Loaded {
	t.Helper()
	must(t, os.Chmod(dir, 0o700))
	l, err := config.Load("", nil, append([]string{"HOLDFAST_NODE_NAME=n1", "HOLDFAST_NODE_DATA_DIR=" + dir,
		"HOLDFAST_GOSSIP_LISTEN=127.0.0.1:0", "HOLDFAST_METRICS_LISTEN=off"}, environ...))
	must(t, err)
	return l
}

// registry gives the process a new registry until the test ends.
func registry(t *testing.T) {
	before := prometheus.DefaultRegisterer
	prometheus.DefaultRegisterer = prometheus.NewRegistry()
	t.Cleanup(func() { prometheus.DefaultRegisterer = before })
}

// A second process with the same directories ends before it touches them: neither a backup that the first one is saving
// into its spool, nor what it would say of its end.
func TestSecondProcess(t *testing.T) {
	registry(t)
	dir := t.TempDir()
	l := load(t, dir, "HOLDFAST_SNAPSHOT_STORE=s3://bucket/x", "HOLDFAST_SNAPSHOT_S3_ENDPOINT=http://127.0.0.1:1",
		"HOLDFAST_SNAPSHOT_S3_REGION=eu-test-1")
	unfinished := filepath.Join(dir, "spool", ".holdfast", "unfinished")
	must(t, os.MkdirAll(filepath.Dir(unfinished), 0o700))
	must(t, os.WriteFile(unfinished, []byte("half a backup"), 0o600))
	first, err := net.Listen("unix", l.Config.Control.Socket)
	must(t, err)
	defer first.Close()
	before, err := os.ReadDir(dir)
	must(t, err)
	again := func() (*config.Loaded, error) { return l, nil }
	err = Run(t.Context(), "test", l, again, zap.NewNop(), zap.NewAtomicLevel())
	if err == nil || !strings.Contains(err.Error(), "is holdfast running here already?") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("in the directory: %v, want %v (%v)", after, before, err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Error(err)
	}
	if _, err := readEnd(l.Config); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the second process left word of its end: %v", err)
	}
}

// A process that is told to stop while it starts has not failed.
func TestStopDuringTheStart(t *testing.T) {
	registry(t)
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIAOPERATOR", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(key, value)
	}
	l := load(t, t.TempDir(), "HOLDFAST_VOLUME_PROVIDER=ebs", "HOLDFAST_NODE_ADDRESS=192.0.2.1",
		"HOLDFAST_VOLUME_EBS_KUBERNETES_CLUSTER=k8s.example.com", "HOLDFAST_VOLUME_EBS_REGION=eu-test-1",
		"HOLDFAST_VOLUME_EBS_ENDPOINT=http://127.0.0.1:1", "HOLDFAST_SNAPSHOT_STORE=s3://bucket/x")
	if !l.Config.Cluster.TagSlots {
		t.Fatal("the slots are not those of the tags")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := Run(ctx, "test", l, func() (*config.Loaded, error) { return l, nil }, zap.NewNop(), zap.NewAtomicLevel())
	if err != nil {
		t.Errorf("got %v", err)
	}
}

// What failed is told even if something else hangs at the end.
func TestWaitForTellsWhatHasFailed(t *testing.T) {
	for _, failed := range []error{errors.New("port taken"), nil} {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancel(t.Context())
			group, ctx := errgroup.WithContext(parent)
			hangs := make(chan struct{})
			group.Go(func() error { <-hangs; return nil })
			group.Go(func() error { return failed })
			synctest.Wait()
			cancel()
			if err := waitFor(ctx, group, zap.NewNop()); !errors.Is(err, failed) {
				t.Errorf("got %v, want %v", err, failed)
			}
			close(hangs)
		})
	}
}

// A changed key that needs a restart, and with which the process would not start, is told as wrong.
func TestReloadOfWhatWouldNotStart(t *testing.T) {
	registry(t)
	dir := t.TempDir()
	running := load(t, dir)
	n, err := newNode(t.Context(), "test", running.Config, zap.NewNop())
	must(t, err)
	for _, c := range []struct {
		socket string
		want   health.Code
		text   string
	}{
		{filepath.Join(dir, "other.sock"), health.RestartNeeded, "control.socket"},
		{"/none/holdfast.sock", health.ConfigWrong, "control.socket: there is no directory /none"},
	} {
		n.reload(running, func() (*config.Loaded, error) { return load(t, dir, "HOLDFAST_CONTROL_SOCKET="+c.socket), nil },
			zap.NewAtomicLevel())
		got := n.pending.Load().findings("n1")
		if len(got) != 1 || got[0].Code != c.want || !strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: got %+v, want %s", c.socket, got, c.want)
		}
	}
}
