package embedded

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/auth"
	"holdfast/embedded/plan"
)

// settle makes every step from what the member has to what is wanted, and checks that no step is left. The real etcd
// compares the passwords, as for the keeper.
func settle(t *testing.T, n *node, w auth.Wanted, matches auth.Matcher) {
	t.Helper()
	have, err := n.Auth()
	if err != nil {
		t.Fatal(err)
	}
	steps, problems := auth.Diff(w, have, matches)
	if len(problems) > 0 {
		t.Fatalf("problems: %q", problems)
	}
	for _, s := range steps {
		if err := n.ChangeAuth(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if have, err = n.Auth(); err != nil {
		t.Fatal(err)
	}
	if again, _ := auth.Diff(w, have, func(_, _ auth.Secret) bool { return true }); len(again) > 0 {
		t.Errorf("after %v there is still %v", steps, again)
	}
	if have.Enabled != w.Enabled {
		t.Errorf("enabled: got %t", have.Enabled)
	}
}

// as returns a client of the member with a name and a password.
func (n *node) as(t *testing.T, user, password string) (*clientv3.Client, error) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + n.addr + ":2379"}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(), Username: user, Password: password})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// etcd accepts every step, on the leader and on a follower, and the result is what the file says. Two permissions begin
// at one key, and the second changes too. holdfast's own work continues while auth is enabled, without a password.
func TestChangeAuth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster of three, and bcrypt")
	}
	nodes := found(t, "a", "b", "c")
	follower := nodes[0]
	if follower.Status().Leader {
		follower = nodes[1]
	}
	differs := func(_, _ auth.Secret) bool { return false }
	equal := func(_, _ auth.Secret) bool { return true }
	w := auth.Wanted{Enabled: true, Others: auth.Delete,
		Roles: []auth.Role{{Name: "app", Permissions: []auth.Permission{{Access: auth.ReadOnly, Key: "/a"}, {Access: auth.ReadOnly, Key: "/a", End: "/b"}}}},
		Users: []auth.WantedUser{{Name: auth.Root, Password: "r", Roles: []string{auth.Root}}, {Name: "ann", Password: "one", Roles: []string{"app"}},
			{Name: "kube-apiserver", NoPassword: true, Roles: []string{auth.Root}}}}
	settle(t, follower, w, differs)
	settle(t, follower, w, equal)
	if _, err := follower.as(t, "ann", "two"); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("a wrong password: got %v", err)
	}
	if _, err := follower.as(t, "kube-apiserver", "x"); err == nil {
		t.Error("a user without a password logs in with one")
	}
	if _, err := follower.client(t).Get(t.Context(), "/a/b"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("a read by nobody: got %v", err)
	}
	ann, err := follower.as(t, "ann", "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Get(t.Context(), "/a/b"); err != nil {
		t.Error(err)
	}
	if _, err := ann.Put(t.Context(), "/a/b", "x"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a write with permission to read: got %v", err)
	}
	w.Roles[0].Permissions[1].Access = auth.ReadWrite
	settle(t, follower, w, equal)
	if _, err := ann.Put(t.Context(), "/a/b", "x"); err != nil {
		t.Errorf("a write that was permitted by now: %v", err)
	}

	if err := follower.PutKey(t.Context(), "slots", []byte("x"), 0); err != nil {
		t.Error(err)
	}
	if _, err := follower.TryLock(t.Context(), []byte("me"), nil, time.Minute); err != nil {
		t.Error(err)
	}
	if err := follower.RefreshLock(t.Context(), []byte("me")); err != nil {
		t.Error(err)
	}
	if err := follower.Unlock(t.Context(), []byte("me")); err != nil {
		t.Error(err)
	}
	var id uint64
	await(t, "the members have known each other for long enough", func() bool {
		id, err = follower.AddLearner(soon(t), "http://d.test:2380")
		return !errors.Is(err, plan.ErrUnhealthy)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Remove(soon(t), id); err != nil {
		t.Error(err)
	}
	if err := follower.Defragment(t.Context()); err != nil {
		t.Error(err)
	}
	if err := follower.Compact(t.Context(), follower.Status().Revision); err != nil {
		t.Error(err)
	}
	tx, err := follower.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx.Close()

	w.Users = w.Users[:1]
	w.Roles = nil
	settle(t, follower, w, equal)
	if _, err := ann.Get(t.Context(), "/a/b"); err == nil {
		t.Error("a user that was deleted still reads")
	}
	settle(t, follower, auth.Wanted{Others: auth.Delete}, equal)
	if _, err := follower.client(t).Get(t.Context(), "/a/b"); err != nil {
		t.Errorf("auth is disabled: %v", err)
	}
}
