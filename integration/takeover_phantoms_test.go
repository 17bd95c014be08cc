package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/integration"
)

// Some versions of etcd 3.5 leave members in only one of their lists, and one version removes them.
const (
	etcdCareless  = "3.5.19" // does not write a promotion into the database, nor all removals of --force-new-cluster
	etcdForgetful = "3.5.24" // the last but one version that keeps phantoms
)

// elders are members of etcd 3.5, which another version may run later.
type elders struct {
	t       *testing.T
	cluster *integration.Cluster
	members []*plain
}

// elderEtcd returns the binary of a version. Without it, the story is skipped.
func elderEtcd(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(managerVariable), "etcd-v"+version, "etcd")
	if _, err := os.Stat(path); os.Getenv(managerVariable) == "" || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("needs etcd %s: build it, and name the directory of etcd-v%[1]s in %s", version, managerVariable)
	}
	return path
}

// newElders makes members without starting them.
func newElders(t *testing.T, size int) elders {
	t.Helper()
	story(t)
	holdfast, err := binary()
	must(t, err)
	c := integration.New(t, holdfast, integration.Options{})
	return elders{t, c, plainMembers(t, "", c, size)}
}

// run starts members with a version, and waits until they serve.
func (e elders) run(version string, members []*plain, env ...string) {
	e.t.Helper()
	for _, p := range members {
		p.binary = elderEtcd(e.t, version)
		p.Start(env...)
	}
	for _, p := range members {
		e.writes(p)
	}
}

// writes waits until a member acknowledges a write. An entry at an index that the database already has is never
// answered.
func (e elders) writes(p *plain) {
	e.t.Helper()
	c := dialed(e.t, p.ClientURL())
	integration.Until(e.t, 2*time.Minute, p.name+" takes writes", func() error {
		ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
		defer cancel()
		_, err := c.Put(ctx, "any", p.name)
		return err
	})
}

// stop stops members, the last one first.
func (e elders) stop(with syscall.Signal, members []*plain) {
	e.t.Helper()
	for _, p := range slices.Backward(members) {
		p.Signal(with)
		p.Exit(time.Minute)
	}
}

// ask calls etcd's API until it answers.
func (e elders) ask(p *plain, what string, call func(context.Context, *clientv3.Client) error) {
	e.t.Helper()
	c := dialed(e.t, p.ClientURL())
	integration.Until(e.t, time.Minute, what, func() error {
		ctx, cancel := context.WithTimeout(e.t.Context(), 5*time.Second)
		defer cancel()
		return call(ctx, c)
	})
}

// snapshot returns a snapshot of a member. Before that, the database is written to disk.
func (e elders) snapshot(p *plain) (data []byte) {
	e.t.Helper()
	e.ask(p, "a snapshot", func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		data, err = io.ReadAll(r)
		return err
	})
	return data
}

// finds checks the findings of `takeover check` about directories: the same differences in each, such as "only-v3 2".
// The check is refused in any case, because the cluster is of etcd 3.5. The differences are obstacles as well, with a
// cure.
func (e elders) finds(when string, dirs []string, want ...string) {
	e.t.Helper()
	out := e.cluster.Nodes[0].Holdfast(append([]string{"takeover", "check", "-o", "json"}, dirs...)...)
	var report struct {
		Members []struct {
			Findings []struct {
				Blocks bool   `json:"blocks"`
				Cure   string `json:"cure"`
			} `json:"findings"`
			Lists struct {
				Differences []struct {
					Kind string `json:"kind"`
				} `json:"differences"`
			} `json:"lists"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(out.Out), &report); err != nil || out.Code != 1 || len(report.Members) != len(dirs) {
		e.t.Fatalf("%s: %v, %+v", when, err, out)
	}
	for i, m := range report.Members {
		var kinds []string
		for _, d := range m.Lists.Differences {
			kinds = append(kinds, d.Kind)
		}
		slices.Sort(kinds)
		cures := 0
		for _, f := range m.Findings {
			if f.Blocks && strings.Contains(f.Cure, "phantom members") {
				cures++
			}
		}
		if !slices.Equal(kinds, want) || cures != len(want) {
			e.t.Errorf("%s: in %s got %v, want %v, each in the way: %+v", when, dirs[i], kinds, want, m.Findings)
		}
	}
}

func (e elders) dirs() (dirs []string) {
	for _, p := range e.members {
		dirs = append(dirs, p.data)
	}
	return dirs
}

// Each member's log loses its end, as may happen with --unsafe-no-fsync and a crash, but its database does not. Then a
// member that was added is only in the database. The next one that is added is not in the database: its entry has an
// index that the database already has (etcd-io/etcd#20967). etcd 3.5.33 removes the first, and the operator the
// second. A directory that etcdutl makes from a snapshot of such a cluster has neither.
func TestPhantomsOfEtcd35(t *testing.T) {
	elderEtcd(t, etcdForgetful)
	elderEtcd(t, etcd35)
	e := newElders(t, 3)
	first := e.members[0]
	e.run(etcdForgetful, e.members)
	e.stop(syscall.SIGTERM, e.members)
	e.finds("as it was founded", e.dirs())
	wal := func(p *plain) string { return filepath.Join(p.data, "member", "wal") }
	for _, p := range e.members {
		must(t, os.CopyFS(filepath.Join(p.dir, "wal"), os.DirFS(wal(p))))
	}
	e.run(etcdForgetful, e.members)
	for range 30 {
		e.writes(first)
	}
	add := func(host string) {
		t.Helper()
		url := fmt.Sprintf("http://%s:2380", e.cluster.Address(map[string]int{"phantom": 201, "lost": 202}[host]))
		e.ask(first, host+" is added", func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.MemberAdd(ctx, []string{url})
			if err != nil && strings.Contains(err.Error(), "Peer URLs already exists") {
				return nil
			}
			return err
		})
	}
	add("phantom")
	e.stop(syscall.SIGTERM, e.members)
	for _, p := range e.members {
		must(t, os.RemoveAll(wal(p)))
		must(t, os.Rename(filepath.Join(p.dir, "wal"), wal(p)))
		p.binary = elderEtcd(t, etcdForgetful)
		p.Start()
	}
	add("lost")
	for _, p := range e.members {
		e.writes(p)
	}
	var lost uint64
	e.ask(first, "the list of members", func(ctx context.Context, c *clientv3.Client) error {
		list, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if m.Name == "" {
				lost = m.ID
			}
		}
		return nil
	})
	snapshot := e.snapshot(first)
	e.stop(syscall.SIGTERM, e.members)
	e.finds("with a phantom and a lost member", e.dirs(), "only-v2", "only-v3")

	file, restored := filepath.Join(first.dir, "snapshot.db"), filepath.Join(first.dir, "restored")
	must(t, os.WriteFile(file, snapshot, 0o600))
	url := fmt.Sprintf("http://%s:2380", e.cluster.Address(203))
	if out := e.cluster.Nodes[0].Holdfast("etcdutl", "snapshot", "restore", file, "--data-dir", restored, "--name", "r",
		"--initial-cluster", "r="+url, "--initial-advertise-peer-urls", url); out.Code != 0 {
		t.Fatalf("restore the snapshot: %+v", out)
	}
	e.finds("restored from the snapshot", []string{restored})

	e.run(etcd35, e.members) // each announces its name, and then all remove the phantom
	e.stop(syscall.SIGTERM, e.members)
	e.finds("after etcd "+etcd35, e.dirs(), "only-v2")
	e.run(etcd35, e.members)
	e.ask(first, "the lost member is removed", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberRemove(ctx, lost)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
	for _, p := range e.members {
		e.writes(p) // beyond the index of the removal
	}
	e.stop(syscall.SIGTERM, e.members)
	e.finds("after the removal", e.dirs())
}

// A learner was promoted by an etcd that does not write the promotion into the database (etcd-io/etcd#19557, #20793):
// only the log has it. A newer etcd 3.5 corrects that as soon as it runs.
func TestForgottenPromotionOfEtcd35(t *testing.T) {
	elderEtcd(t, etcdCareless)
	elderEtcd(t, etcdForgetful)
	e := newElders(t, 2)
	first, second := e.members[0], e.members[1]
	both := first.founders
	first.founders, _, _ = strings.Cut(both, ",")
	e.run(etcdCareless, e.members[:1])
	var id uint64
	e.ask(first, "the second is added", func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.MemberAddAsLearner(ctx, []string{"http://" + second.address + ":2380"})
		if err == nil {
			id = r.Member.ID
		}
		return err
	})
	second.binary, second.joins = elderEtcd(t, etcdCareless), true
	second.Start()
	e.ask(first, "the second is promoted", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberPromote(ctx, id)
		return err
	})
	e.writes(second)
	e.stop(syscall.SIGTERM, e.members)
	e.finds("promoted by etcd "+etcdCareless, e.dirs(), "learner-in-v3")
	e.run(etcdForgetful, e.members)
	e.stop(syscall.SIGTERM, e.members)
	e.finds("after etcd "+etcdForgetful, e.dirs())
}

// A cluster was started with --force-new-cluster after a power loss, when the database had an entry that the log did
// not show as committed yet. The first removal takes its index, and the database still lists that member
// (etcd-io/etcd#20009, etcd-io/raft#300). etcd 3.5.24 leaves it there.
func TestForceNewClusterOfEtcd35(t *testing.T) {
	elderEtcd(t, etcdCareless)
	elderEtcd(t, etcdForgetful)
	elderEtcd(t, etcd35)
	e := newElders(t, 3)
	e.run(etcdCareless, e.members)
	survivor := e.members[2:] // the first to be killed, before it has seen that another one is gone
	e.snapshot(survivor[0])
	e.stop(syscall.SIGKILL, e.members)
	e.run(etcdCareless, survivor, "ETCD_FORCE_NEW_CLUSTER=true")
	e.stop(syscall.SIGTERM, survivor)
	e.run(etcdForgetful, survivor)
	e.stop(syscall.SIGTERM, survivor)
	e.finds("after --force-new-cluster", e.dirs()[2:], "only-v3")
	e.run(etcd35, survivor)
	e.stop(syscall.SIGTERM, survivor)
	e.finds("after etcd "+etcd35, e.dirs()[2:])
}
