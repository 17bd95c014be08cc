package auth

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/bcrypt"
)

// world is a member, a leadership and an obstacle, set by the test.
type world struct {
	mu     sync.Mutex
	etcd   etcd
	leads  string
	why    string
	did    []string
	failed error
	reads  int
}

func (w *world) Auth() (State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return w.etcd.clone().State, nil
}

func (w *world) ChangeAuth(_ context.Context, s Step) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	if !s.NoPassword && s.Password != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(s.Password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		s.Password = Secret(hash)
	}
	err := w.etcd.do(s)
	if u := w.etcd.user(s.User); err == nil && u != nil {
		u.Hash = Secret(strings.TrimPrefix(string(u.Hash), "hash of "))
	}
	return err
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) steps() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	did := w.did
	w.did = nil
	return did
}

const secret = "hunter2-hunter2"

// files writes an auth file and its passwords, and returns the path.
func files(t *testing.T, text string, passwords map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range passwords {
		write(t, filepath.Join(dir, name), content+"\n", 0o600)
	}
	path := filepath.Join(dir, "auth.yaml")
	write(t, path, text, 0o600)
	return path
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

const two = `
enabled: true
users:
- {name: root, password-file: root.pw, roles: [root]}
- {name: ann, password-file: ann.pw, roles: [app]}
roles:
- {name: app, permissions: [{access: readwrite, prefix: /app/}]}
`

// keep runs a keeper with a log of everything.
func keep(t *testing.T, path string) (*Keeper, *world, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	w := &world{}
	k := NewKeeper(path, World{
		Etcd:     w,
		Leads:    func() string { w.mu.Lock(); defer w.mu.Unlock(); return w.leads },
		Obstacle: func(bool) string { w.mu.Lock(); defer w.mu.Unlock(); return w.why },
		Did:      func(s Step, err error) { w.set(func() { w.did = append(w.did, s.String()) }) },
	}, zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return k, w, logs
}

// The keeper works while the member leads and there is no obstacle. It follows the files, and corrects changes by
// others. It does nothing while nothing has changed, and reports what it cannot do.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := files(t, two, map[string]string{"root.pw": "root-" + secret, "ann.pw": secret})
		k, w, logs := keep(t, path)
		pass := func(d time.Duration) []string { time.Sleep(d); synctest.Wait(); return w.steps() }
		quiet := func(why string, d time.Duration) {
			t.Helper()
			if did := pass(d); len(did) > 0 {
				t.Errorf("%s: did %v", why, did)
			}
		}
		quiet("it does not lead", time.Minute)
		w.set(func() { w.leads, w.why = "term 1", "the cluster is paused" })
		quiet("paused", time.Minute)
		w.set(func() { w.why = "" })
		if did := pass(lookEvery + 1); len(did) == 0 || did[len(did)-1] != "enable auth" {
			t.Errorf("did %v", did)
		}
		reads := func() (n int) { w.set(func() { n = w.reads }); return n }
		before := reads()
		quiet("all is done", time.Hour)
		if looks, want := reads()-before, int(time.Hour/lookEvery+time.Hour/lookAnyway); looks > want+1 {
			t.Errorf("in an hour in which nothing happened etcd was read %d times, want %d", looks, want)
		}

		write(t, filepath.Join(filepath.Dir(path), "ann.pw"), "another-"+secret[:1], 0o600)
		quiet("a password that is half written", lookEvery)
		write(t, filepath.Join(filepath.Dir(path), "ann.pw"), "another-"+secret, 0o600)
		quiet("a password that may be half written", lookEvery)
		write(t, filepath.Join(filepath.Dir(path), "ann.pw"), "another-", 0o600)
		k.Look()
		quiet("a password that is half written, and a look", 0)
		k.Look() // the configuration is written as well
		quiet("a password that is half written, and two looks", settleTime/2)
		write(t, filepath.Join(filepath.Dir(path), "ann.pw"), "another-"+secret, 0o600)
		quiet("a password that may be half written, and a look", settleTime)
		if did := pass(lookEvery + 1); !slices.Equal(did, []string{"change the password of user ann"}) {
			t.Errorf("a changed password file: did %v", did)
		}
		w.set(func() { _ = w.etcd.do(Step{Kind: TakeRole, User: "ann", Role: "app"}) })
		if did := pass(lookEvery + 1); !slices.Equal(did, []string{"give user ann the role app"}) {
			t.Errorf("somebody took a role away: did %v", did)
		}
		w.set(func() { w.etcd, w.leads = etcd{}, "term 2" })
		if did := pass(lookEvery + 1); len(did) == 0 {
			t.Error("a restored cluster, which knows nobody: did nothing")
		}

		write(t, filepath.Join(filepath.Dir(path), "ann.pw"), secret, 0o644)
		quiet("a password that everyone may read", 2*lookEvery+1)
		if p := k.Problems(); len(p) != 1 || !strings.Contains(p[0], "user ann") || !strings.Contains(p[0], "chmod 600") {
			t.Errorf("problems: %q", p)
		}
		write(t, path, "enabled: maybe\npasswords: []\n", 0o600)
		quiet("a file that is wrong", lookEvery+1)
		if p := k.Problems(); len(p) != 1 || !strings.Contains(p[0], "auth.yaml:1") || !strings.Contains(p[0], "auth.yaml:2") {
			t.Errorf("problems: %q", p)
		}
		write(t, path, "enabled: false\nothers: delete\n", 0o600)
		if did := pass(2*lookEvery + 1); len(did) == 0 || did[0] != "disable auth" {
			t.Errorf("disabled: did %v", did)
		}
		if p := k.Problems(); len(p) != 0 {
			t.Errorf("problems: %q", p)
		}
		for _, e := range logs.All() {
			for _, f := range e.Context {
				if strings.Contains(f.String, secret) || strings.Contains(e.Message, secret) {
					t.Errorf("logged: %+v", e)
				}
			}
		}
	})
}

// A step that fails is a problem. It is tried again after a while, and then the problem is gone.
func TestKeeperRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w, _ := keep(t, files(t, two, map[string]string{"root.pw": "r", "ann.pw": "a"}))
		w.set(func() { w.leads, w.failed = "term 1", errors.New("no quorum") })
		time.Sleep(2*lookEvery + 1)
		synctest.Wait()
		if p := k.Problems(); len(p) != 1 || !strings.Contains(p[0], "add role root: no quorum") {
			t.Errorf("problems: %q", p)
		}
		w.steps()
		time.Sleep(retryAfter - lookEvery - 1)
		synctest.Wait()
		if did := w.steps(); len(did) > 0 {
			t.Errorf("too early: %v", did)
		}
		w.set(func() { w.failed = nil })
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if p := k.Problems(); len(p) != 0 || !w.etcd.Enabled {
			t.Errorf("problems: %q, enabled: %t", p, w.etcd.Enabled)
		}
	})
}

// An operator sees what would be done, and can do it on a node that does not lead, and while the cluster is paused.
func TestPlanAndApply(t *testing.T) {
	w := &world{}
	k := NewKeeper(files(t, two, map[string]string{"root.pw": "r", "ann.pw": "a"}), World{
		Etcd: w, Leads: func() string { return "" }, Did: func(Step, error) {},
		Obstacle: func(asked bool) string {
			if asked {
				return w.why
			}
			return "paused"
		},
	}, zap.NewNop())
	plan, err := k.Plan()
	if err != nil || len(plan.Steps) != 8 || len(w.etcd.Users) > 0 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	done, err := k.Apply(t.Context())
	if err != nil || !slices.Equal(done.Steps, plan.Steps) || !done.Enabled {
		t.Errorf("apply: %+v, %v, want %v", done, err, plan.Steps)
	}
	if again, err := k.Plan(); err != nil || len(again.Steps) > 0 {
		t.Errorf("plan afterwards: %+v, %v", again, err)
	}
	w.why = "a restore is under way"
	if _, err := k.Apply(t.Context()); err == nil || err.Error() != w.why {
		t.Errorf("during a restore: %v", err)
	}
	if _, err := NewKeeper("", World{}, zap.NewNop()).Plan(); !errors.Is(err, errNone) {
		t.Errorf("without a file: %v", err)
	}
}
