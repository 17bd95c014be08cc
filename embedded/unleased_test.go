package embedded

import (
	"errors"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/plan"
)

// Unleased finds the keys below a prefix to which no living lease is bound. A key that was written meanwhile is not
// deleted. Authentication is enabled.
func TestUnleased(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a member")
	}
	n := newNode(t, "a").run(t).awaitReady(t)
	c := n.client(t)
	lease, err := c.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "m/1", "x", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	put(t, c, "m0", "x") // the first key after the prefix
	revision := put(t, c, "m/2", "x")
	enableAuth(t, c)
	u, err := n.Unleased(t.Context(), "m/", 10)
	if want := []plan.UnleasedKey{{Key: "m/2", Revision: revision}}; err != nil || !slices.Equal(u.Keys, want) || u.Read != 2 || u.Total != 2 {
		t.Fatalf("got %+v, %v, want %+v of 2", u, err, want)
	}
	if u, err := n.Unleased(t.Context(), "m/", 1); err != nil || len(u.Keys) != 0 || u.Read != 1 || u.Total != 2 {
		t.Errorf("with a limit of 1: %+v, %v", u, err)
	}
	if err := n.DeleteUnchanged(t.Context(), "m/2", revision-1); !errors.Is(err, ErrChanged) {
		t.Errorf("at another revision: %v, want %v", err, ErrChanged)
	}
	if err := n.DeleteUnchanged(t.Context(), "m/2", revision); err != nil {
		t.Fatal(err)
	}
	if u, err := n.Unleased(t.Context(), "m/", 10); err != nil || len(u.Keys) != 0 || u.Total != 1 {
		t.Errorf("after the deletion: %+v, %v", u, err)
	}
}
