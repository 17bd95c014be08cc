package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/plan"
	"holdfast/integration"
)

// Keys with which operators and members coordinate do not come back from a backup: a pause that has ended since, a
// lock, and a consent. They are deleted through raft, with etcd's authentication enabled. New ones count as usual.
func TestRestoreForgetsWhatWasSaid(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	ctx := t.Context()
	n, client := c.Nodes[0], etcd(t, "", c.Nodes...)
	_, err := client.RoleAdd(ctx, "root")
	must(t, err)
	_, err = client.UserAdd(ctx, "root", "root")
	must(t, err)
	_, err = client.UserGrantRole(ctx, "root", "root")
	must(t, err)
	_, err = client.AuthEnable(ctx)
	must(t, err)
	root := etcd(t, "root", c.Nodes...)
	self, err := n.Self()
	must(t, err)
	lock, err := json.Marshal(plan.Lock{Slot: "z", Node: "gone", Purpose: "stop", Record: self.Record.ID})
	must(t, err)
	_, err = root.Put(ctx, "holdfast.internal/lock", string(lock)) // as if its lease had outlived a crash
	must(t, err)
	done(t, n, "pause", "--reason", "before the upgrade")
	saved := save(t, n)
	done(t, n, "resume")
	restore(t, n, saved.Name)
	generation(t, c, 2)
	for _, n := range c.Nodes {
		s, err := n.Self()
		must(t, err)
		if s.Paused != nil || s.Lock != nil {
			t.Errorf("%s is paused by %+v, the lock is %+v", n.Name, s.Paused, s.Lock)
		}
		if got := series(t, n, "holdfast_paused")["holdfast_paused"]; got != 0 {
			t.Errorf("holdfast_paused of %s: got %v, want 0", n.Name, got)
		}
	}
	left := func() string {
		got, err := root.Get(ctx, "holdfast.internal/", clientv3.WithPrefix())
		must(t, err)
		var keys []string
		for _, kv := range got.Kvs {
			keys = append(keys, string(kv.Key)+"="+string(kv.Value))
		}
		return strings.Join(keys, "\n")
	}
	c.Until(patience, "the keys of the generation before are deleted", func() error {
		if keys := left(); keys != "" {
			return fmt.Errorf("there is %s", keys)
		}
		return nil
	})
	oneCluster(t, c)
	done(t, n, "pause", "--reason", "again")
	c.Until(patience, "every node is paused", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Self(); err != nil || s.Paused == nil || s.Paused.Why != "again" {
				return fmt.Errorf("%s: %+v, %w", n.Name, s.Paused, err)
			}
		}
		return nil
	})
	done(t, n, "resume")
}
