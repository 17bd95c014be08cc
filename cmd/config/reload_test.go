package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
)

func TestDiff(t *testing.T) {
	old := load(t, "log: {level: info}\nsnapshot: {every: 15m}\ncluster: {slots: [a]}", nil)
	if reloadable, restart := old.diff(load(t, "", nil)); len(reloadable)+len(restart) > 0 {
		t.Errorf("equal configurations differ in %v, %v", reloadable, restart)
	}
	reloadable, restart := old.diff(load(t, "log: {level: debug}\nsnapshot: {every: 1h, retry: 5s}\ncluster: {slots: [a, b, c]}\n"+
		"node: {address: 127.0.0.2}\ngossip: {listen: '127.0.0.1:7946'}", nil))
	if want := []Change{{"cluster.slots", "a", "a,b,c"}, {"snapshot.every", "15m", "1h"}, {"snapshot.retry", "30s", "5s"}, {"log.level", "info", "debug"}}; !slices.Equal(reloadable, want) {
		t.Errorf("reloadable: got %v, want %v", reloadable, want)
	}
	next := load(t, "cluster: {slots: [a]}\nsnapshot: {every: 1h, cron: '', keep: {all: 2h}}\n"+
		"node: {address: 127.0.0.2}", nil)
	old.takeOver(next)
	if reloadable, restart := old.diff(next); len(reloadable) > 0 || len(restart) == 0 {
		t.Errorf("after takeOver: got %v and %v, want nothing and what needs a restart", reloadable, restart)
	}
	want := []Change{ // what is derived from a changed key changes as well
		{"node.address", "127.0.0.1", "127.0.0.2"},
		{"etcd.listen-client-urls", "http://127.0.0.1:2379", "http://127.0.0.2:2379"},
		{"etcd.advertise-client-urls", "http://127.0.0.1:2379", "http://127.0.0.2:2379"},
		{"etcd.listen-peer-urls", "http://127.0.0.1:2380", "http://127.0.0.2:2380"},
		{"metrics.listen", "127.0.0.1:2390", "127.0.0.2:2390"},
	}
	if !slices.Equal(restart, want) {
		t.Errorf("restart: got %v, want %v", restart, want)
	}
}

// A file that was cut off, or that is another cluster's, removes no members from a running cluster.
func TestReloadKeepsTheSlotsThatAFileDoesNotName(t *testing.T) {
	for text, taken := range map[string]bool{"": false, "cluster: {name: x, slots: [a]}": false,
		"cluster: {slots: [a]}": true, "cluster: {size: 1}": true} {
		running, next := load(t, "cluster: {slots: [a, b, c]}", nil), load(t, text+"\nsnapshot: {keep: {newest: 1}}", nil)
		reloadable, restart := running.diff(next)
		running.takeOver(next)
		if now := len(running.Config.Cluster.Slots) == 1; now != taken || slices.ContainsFunc(restart, func(c Change) bool {
			return c.Key == "cluster.slots"
		}) == taken {
			t.Errorf("%q: the slots are %v; taken over %v, after a restart %v", text, running.Config.Cluster.Slots,
				reloadable, restart)
		}
		if got := running.Config.Snapshot.Keep.Newest; (got == 1) != taken { // it would prune backups as well
			t.Errorf("%q: snapshot.keep.newest is %d", text, got)
		}
	}
}

// watch collects events from its return on, and looks at them until the test
// ends. The channel receives the content of the file at each call of changed.
func watch(t *testing.T, file string, lg *zap.Logger) <-chan string {
	t.Helper()
	w := newFileWatch(file, lg)
	ctx, cancel := context.WithCancel(context.Background())
	calls, done := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, func() {
			data, err := os.ReadFile(file)
			if err != nil {
				data = []byte(err.Error())
			}
			calls <- string(data)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		w.close()
		if n := len(calls); n > 0 {
			t.Errorf("changed was called %d times too often", n)
		}
	})
	return calls
}

func TestWatchSeesEachWayToChangeAFile(t *testing.T) {
	file := writeFile(t, "0")
	dir := filepath.Dir(file)
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	calls := watch(t, file, zaptest.NewLogger(t))
	expect := func(want string) {
		t.Helper()
		if got := <-calls; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("0") // it may have changed since it was loaded
	write("config.yaml", "1")
	expect("1")
	must(t, os.Chmod(file, 0o640)) // it may have been refused for its mode
	expect("1")

	write("new", "2") // as editors do
	must(t, os.Rename(filepath.Join(dir, "new"), file))
	expect("2")

	must(t, os.Remove(file)) // the process would not start again
	expect("open " + file + ": no such file or directory")
	write("config.yaml", "3")
	expect("3")

	// As Kubernetes does: config.yaml -> ..data/config.yaml, ..data -> a directory per version.
	for _, version := range []string{"4", "5"} {
		must(t, os.Mkdir(filepath.Join(dir, "..v"+version), 0o700))
		write("..v"+version+"/config.yaml", version)
	}
	must(t, os.Symlink("..v4", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/config.yaml", filepath.Join(dir, "link")))
	must(t, os.Rename(filepath.Join(dir, "link"), file))
	expect("4")
	must(t, os.Symlink("..v5", filepath.Join(dir, "..tmp")))
	must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	expect("5")

	// The target may be written in its own, newly watched directory.
	write("..v5/config.yaml", "6")
	expect("6")
}

// A change counts when two looks saw it: also that the file is gone, but not between two renames.
func TestLook(t *testing.T) {
	file := writeFile(t, "0")
	w := newFileWatch(file, zaptest.NewLogger(t))
	defer w.close()
	const gone = "\x00"
	for i, step := range []struct {
		content      string
		isNew, again bool
	}{
		{"0", false, true}, {"0", true, false}, {"0", false, false}, {gone, false, true}, {"0", false, false},
		{"1", false, true}, {"2", false, true}, {gone, false, true}, {"2", false, true}, {"2", true, false},
		{"3", false, true}, {"2", false, false}, {gone, false, true}, {gone, true, false}, {gone, false, false},
	} {
		var err error
		if step.content == gone {
			if err = os.Remove(file); os.IsNotExist(err) {
				err = nil
			}
		} else {
			err = os.WriteFile(file, []byte(step.content), 0o600)
		}
		must(t, err)
		if isNew, again := w.look(); isNew != step.isNew || again != step.again {
			t.Errorf("step %d, %q: got %v, %v, want %v, %v", i, step.content, isNew, again, step.isNew, step.again)
		}
	}
}

// A file that changes all the time beside ours must not keep ours from being read.
func TestWatchInABusyDirectory(t *testing.T) {
	file := writeFile(t, "0")
	calls := watch(t, file, zaptest.NewLogger(t))
	<-calls
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		other := filepath.Join(filepath.Dir(file), "other")
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(other, []byte("x"), 0o600)
			}
		}
	}()
	must(t, os.WriteFile(file, []byte("1"), 0o600))
	if got := <-calls; got != "1" {
		t.Errorf("got %q, want 1", got)
	}
	close(stop)
	<-stopped
}

func TestWatchHeedsHangup(t *testing.T) {
	file := writeFile(t, "0")
	missing := filepath.Join(t.TempDir(), "gone", "config.yaml")
	for _, name := range []string{file, "", missing} {
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) { // each with no other watch in the process
			core, logs := observer.New(zap.WarnLevel)
			calls := watch(t, name, zap.New(core))
			if name == file {
				<-calls // the first look
			}
			must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
			<-calls
			if got, want := logs.Len() > 0, name == missing; got != want {
				t.Errorf("%q: warned: %v, want %v", name, got, want)
			}
		})
	}
}
