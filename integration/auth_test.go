package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/integration"
)

// rules are the files of users and roles of a story, the same for all nodes.
type rules struct {
	t       *testing.T
	c       *integration.Cluster
	dir     string
	secrets []string // every password so far
	said    strings.Builder
}

func newRules(t *testing.T) *rules {
	t.Helper()
	c := cluster(t, integration.Options{})
	r := &rules{t: t, c: c, dir: filepath.Join(c.Dir, "auth")}
	must(t, os.Mkdir(r.dir, 0o700))
	c.Set("auth.file", r.path())
	return r
}

func (r *rules) path() string { return filepath.Join(r.dir, "auth.yaml") }

// write replaces a file by a rename, as a careful operator does.
func (r *rules) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	must(r.t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(r.t, os.Rename(path+".new", path))
}

// password writes the password file of a user.
func (r *rules) password(user, password string) {
	r.t.Helper()
	r.secrets = append(r.secrets, password)
	r.write(user+".pw", password+"\n")
}

// login returns a client of all nodes, or the error of logging in.
func (r *rules) login(user, password string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: r.c.Endpoints(r.c.Running()...), Logger: zap.NewNop(), DialTimeout: 5 * time.Second, Username: user, Password: password})
	if err == nil {
		r.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// must returns a client for a user who must be able to log in.
func (r *rules) as(user, password string) *clientv3.Client {
	r.t.Helper()
	c, err := r.login(user, password)
	if err != nil {
		r.t.Fatalf("log in as %s: %v", user, err)
	}
	return c
}

// run runs a command and keeps its output.
func (r *rules) run(n *integration.Node, args ...string) integration.Output {
	r.t.Helper()
	o := n.Command(args...)
	fmt.Fprintln(&r.said, args, o.Out, o.Err)
	return o
}

// settled waits until `holdfast auth plan` has no steps on any node.
func (r *rules) settled(what string) {
	r.t.Helper()
	r.c.Until(patience, what, func() error {
		for _, n := range r.c.Running() {
			if o := r.run(n, "auth", "plan"); o.Code != 0 {
				return fmt.Errorf("%s: exit code %d: %s%s", n.Name, o.Code, o.Out, o.Err)
			}
		}
		return nil
	})
}

// quiet checks that no password is in any output, log, status or metric.
func (r *rules) quiet() {
	r.t.Helper()
	for _, n := range r.c.Nodes {
		o := r.run(n, "status", "--why", "-o", "json")
		h := r.run(n, "history", "-o", "json")
		config := r.run(n, "config", "show")
		doctor := r.run(n, "doctor")
		for _, secret := range r.secrets {
			for where, text := range map[string]string{"log": n.Log(), "status": o.Out, "history": h.Out, "config": config.Out, "doctor": doctor.Out + doctor.Err, "commands": r.said.String()} {
				if strings.Contains(text, secret) {
					r.t.Errorf("%s: the %s holds a password", n.Name, where)
				}
			}
		}
	}
}

const first = `
enabled: true
users:
- {name: root, password-file: root.pw, roles: [root]}
- {name: app, password-file: app.pw, roles: [app]}
- {name: kube-apiserver, no-password: true, roles: [root]}
roles:
- {name: app, permissions: [{access: readwrite, prefix: /app/}]}
`

// Users and roles appear as the file says, may do only what the file allows, follow its changes, and disappear with
// it. holdfast's own work continues meanwhile, and no password is printed.
func TestAuthByFile(t *testing.T) {
	story(t)
	r := newRules(t)
	r.password("root", "root-planted-1")
	r.password("app", "app-planted-1")
	r.write("auth.yaml", first)
	r.c.Start()
	r.c.Serving()
	r.settled("the users and roles of the file are there")
	ctx := t.Context()
	if _, err := r.login("app", "wrong"); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("a wrong password: got %v", err)
	}
	if _, err := etcd(t, "", r.c.Nodes...).Get(ctx, "/app/a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("nobody reads: got %v", err)
	}
	app := r.as("app", "app-planted-1")
	if _, err := app.Put(ctx, "/app/a", "1"); err != nil {
		t.Error(err)
	}
	if _, err := app.Put(ctx, "/other/a", "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("beyond its prefix: got %v", err)
	}

	root := r.as("root", "root-planted-1")
	_, err := root.UserAdd(ctx, "guest", "guest")
	must(t, err)
	_, err = root.RoleAdd(ctx, "guests")
	must(t, err)
	r.password("root", "root-planted-2")
	r.password("app", "app-planted-2")
	r.c.Until(patience, "the passwords are changed", func() error {
		_, err := r.login("root", "root-planted-2")
		_, other := r.login("app", "app-planted-2")
		return errors.Join(err, other)
	})
	if _, err := r.login("root", "root-planted-1"); err == nil {
		t.Error("root's old password is still good")
	}
	if _, err := r.login("guest", "guest"); err != nil {
		t.Errorf("others: keep: %v", err)
	}

	// An operator applies the file without waiting, on a node that does not lead, while the cluster is paused.
	follower := r.c.Nodes[0]
	if r.c.Leader() == follower {
		follower = r.c.Nodes[1]
	}
	if o := r.run(follower, "pause", "--reason", "story"); o.Code != 0 {
		t.Fatal(o.Err)
	}
	r.write("auth.yaml", strings.Replace(first, "enabled: true", "enabled: true\nothers: delete", 1)+"- {name: reader, permissions: [{access: read, all: true}]}\n")
	o := r.run(follower, "auth", "plan")
	for _, want := range []string{"add role reader", `permit role reader to read all keys`, "delete user guest", "delete role guests"} {
		if o.Code != 2 || !strings.Contains(o.Out, want) {
			t.Errorf("plan: exit code %d, want %q in\n%s%s", o.Code, want, o.Out, o.Err)
		}
	}
	if o := r.run(follower, "auth", "apply", "--dry-run"); o.Code != 0 || !strings.Contains(o.Out, "nothing was changed") {
		t.Errorf("dry run: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := r.run(follower, "auth", "apply"); o.Code != 1 || !strings.Contains(o.Err, "--yes") {
		t.Errorf("nobody to ask: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if _, err := r.login("guest", "guest"); err != nil {
		t.Errorf("nothing was applied yet: %v", err)
	}
	if o := r.run(follower, "auth", "apply", "--yes"); o.Code != 0 {
		t.Errorf("apply: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if _, err := r.login("guest", "guest"); err == nil {
		t.Error("others: delete: guest is still there")
	}
	if o := r.run(follower, "resume"); o.Code != 0 {
		t.Fatal(o.Err)
	}
	h := r.run(follower, "history", "-o", "json")
	if !strings.Contains(h.Out, coordinator.EntryAuth) || !strings.Contains(h.Out, "delete user guest") {
		t.Errorf("history: %s", h.Out)
	}

	// A wrong file, or a password that cannot be read, changes nothing and is shown.
	r.write("auth.yaml", "enabled: true\nuser: []\n")
	r.c.Until(patience, "the leader tells of the file", func() error {
		s, err := r.c.Leader().Self()
		if err == nil && !strings.Contains(strings.Join(health.Texts(s.Found), "\n"), "auth.yaml:2: the file: unknown key user") {
			err = fmt.Errorf("problems: %q", health.Texts(s.Found))
		}
		return err
	})
	if o := follower.Holdfast("auth", "check", r.path()); o.Code != 1 || !strings.Contains(o.Err, "auth.yaml:2") {
		t.Errorf("check: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if _, err := r.as("app", "app-planted-2").Get(ctx, "/app/a"); err != nil {
		t.Error(err)
	}

	r.write("auth.yaml", "enabled: false\nothers: delete\n")
	r.settled("auth is disabled")
	got, err := etcd(t, "", r.c.Nodes...).Get(ctx, "/app/a")
	must(t, err)
	if len(got.Kvs) != 1 {
		t.Error("what was written is gone")
	}
	r.quiet()
}

// With auth enabled, the cluster is backed up, restored and restarted node by node. A restore brings back the users of
// the backup; then holdfast changes them to those of the file.
func TestAuthAndRestore(t *testing.T) {
	story(t)
	r := newRules(t)
	r.password("root", "root-planted-1")
	r.password("app", "app-planted-1")
	r.write("auth.yaml", first)
	r.c.Start()
	r.c.Serving()
	r.settled("the users and roles of the file are there")
	ctx := t.Context()
	_, err := r.as("app", "app-planted-1").Put(ctx, "/app/a", "saved")
	must(t, err)
	saved := save(t, r.c.Nodes[1])

	r.password("app", "app-planted-2")
	r.write("auth.yaml", strings.Replace(first, "/app/", "/new/", 1))
	r.settled("the file has changed")
	_, err = r.as("app", "app-planted-2").Put(ctx, "/new/a", "late")
	must(t, err)

	restore(t, r.c.Nodes[0], saved.Name)
	generation(t, r.c, 2)
	r.settled("the users of the backup have become those of the file")
	app := r.as("app", "app-planted-2")
	if _, err := app.Put(ctx, "/new/b", "1"); err != nil {
		t.Error(err)
	}
	if _, err := app.Get(ctx, "/app/a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("what the backup permitted: got %v", err)
	}
	got, err := r.as("root", "root-planted-1").Get(ctx, "", clientv3.WithPrefix())
	must(t, err)
	for _, kv := range got.Kvs {
		if string(kv.Key) == "/new/a" {
			t.Error("a key that was written after the backup is there")
		}
	}

	// Each stop takes the disruption lock, which is a key in etcd.
	for _, n := range r.c.Nodes {
		n.Stop()
		n.Start()
		r.c.Healthy()
	}
	if _, err := r.login("app", "app-planted-1"); err == nil {
		t.Error("the password of the backup is good")
	}
	r.settled("nothing has changed")
	r.quiet()
}
