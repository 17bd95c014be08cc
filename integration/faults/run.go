package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.uber.org/zap"

	"holdfast/integration"
	"holdfast/volume/volumetest/ec2test"
)

var (
	slots = []string{"a", "b", "c"}
	zones = []string{"eu-test-1a", "eu-test-1b", "eu-test-1c"}
)

const (
	volumeSize = 8                      // GiB for the stand-in, which makes 256 MiB of them
	roomy      = 24                     // the same, with room for a restore beside the data in use
	look       = 50 * time.Millisecond  // how often nodes that have ended are looked for
	restart    = 500 * time.Millisecond // from a node's end to its next start, as with a supervisor
)

// Run is one run: a site, a cluster on it, and the state of its nodes.
type Run struct {
	Dir string // contains schedule.json and the history; the nodes' logs are beside it

	t       testing.TB
	lg      *zap.Logger
	site    *integration.Site
	cluster *integration.Cluster
	volumes []string                        // IDs, by slot
	size    int64                           // of each volume, in GiB for the stand-in
	down    map[*integration.Node]bool      // the nodes that are down on purpose
	ended   map[*integration.Node]time.Time // when a node that should run was first seen to have ended
	begun   time.Time
}

// Found makes a site with a healthy cluster, on volumes of size GiB for the stand-in. When the test ends, everything is
// removed. If it has failed, the artefacts are kept.
func Found(t testing.TB, binary string, lg *zap.Logger, size int64) *Run {
	t.Helper()
	s := integration.NewSite(t, binary, false)
	r := &Run{size: size, Dir: filepath.Join(s.Dir, "history"), t: t, lg: lg, site: s, down: map[*integration.Node]bool{},
		ended: map[*integration.Node]time.Time{}, begun: time.Now()}
	var machines []*integration.Machine
	for i := range slots {
		machines = append(machines, s.Launch(zones[i]))
		r.volumes = append(r.volumes, r.volume(i))
	}
	r.cluster = s.Cluster("main", slots, 0, machines...)
	// A stop need not hand over leadership, which is a fault of its own; with the disruption lock it would be slow.
	r.cluster.Set("stop.wait", "0s")
	r.cluster.Set("etcd.snapshot-count", 1000) // so that members that were away get snapshots as well
	r.cluster.Start()
	r.cluster.Healthy()
	return r
}

// volume adds a blank volume for the i-th slot.
func (r *Run) volume(i int) string {
	r.t.Helper()
	id, err := r.site.EC2.AddVolume(ec2test.Volume{Zone: zones[i], Size: r.size, Encrypted: true,
		Tags: map[string]string{"holdfast:cluster": "main", "holdfast:member": slots[i]}})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// Play inflicts all faults of the schedule under recorded traffic, waits until the cluster is healthy again, kills all
// nodes, and saves the history in Dir. Before the last write it calls each of before.
func (r *Run) Play(s Schedule, before ...func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tr, err := begin(ctx, r.lg, s.Traffic, r.cluster.Endpoints())
	if err != nil {
		r.t.Fatal(err)
	}
	r.begun = time.Now()
	for _, f := range s.Faults {
		r.wait(f.Wait, nil)
		r.inflict(f)
	}
	r.recover()
	for _, f := range before {
		f()
	}
	within, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	reports, err := tr.end(within)
	if err != nil {
		r.t.Errorf("end the traffic: %v", err)
		reports = slices.Concat(tr.writers.Reports(), tr.watchers.Reports())
	}
	r.equal()
	requests := traffic.CalculateStats(reports, 0, time.Since(r.begun)+time.Minute)
	r.say("%d requests succeeded, %d failed", requests.Successes, requests.Failures)
	r.cluster.Kill()
	r.keep(s)
	if err := save(r.lg, filepath.Join(r.Dir, "record"), tr.kind.ExpectUniqueRevision(), reports,
		r.members()); err != nil {
		r.t.Fatal(err)
	}
}

// keep saves the schedule.
func (r *Run) keep(s Schedule) {
	r.t.Helper()
	data, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(r.Dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.Dir, "schedule.json"), data, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// say logs with the time since the traffic began.
func (r *Run) say(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("%7s %s", time.Since(r.begun).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// wait waits for d. Meanwhile it calls each again and again, and starts nodes that have ended, as a supervisor does.
func (r *Run) wait(d time.Duration, each func()) {
	r.t.Helper()
	for last := time.Now().Add(d); time.Now().Before(last); time.Sleep(look) {
		if each != nil {
			each()
		}
		r.supervise()
	}
}

func (r *Run) supervise() {
	r.t.Helper()
	for _, n := range r.cluster.Nodes {
		switch since, known := r.ended[n]; {
		case n.Running() || r.down[n]:
			delete(r.ended, n)
		case !known:
			r.say("%s ended with code %d", n.Name, n.Exit(time.Second))
			r.ended[n] = time.Now()
		case time.Since(since) > restart:
			n.Start()
		}
	}
}

// wanted clears the marks of nodes that are down on purpose.
func (r *Run) wanted() {
	for _, n := range r.cluster.Nodes {
		r.down[n] = false
	}
}

// recover waits until the cluster is healthy, and starts nodes that have ended.
func (r *Run) recover() {
	r.t.Helper()
	began := time.Now()
	r.wanted()
	r.cluster.Until(90*time.Second, "the cluster is healthy after all faults", func() error {
		r.supervise()
		if running := len(r.cluster.Running()); running < nodes {
			return fmt.Errorf("%d of %d nodes run", running, nodes)
		}
		return r.fit()
	})
	r.say("healthy, %s after the last fault", time.Since(began).Round(time.Millisecond))
}

// fit returns nil if every node says that the cluster is healthy.
func (r *Run) fit() error {
	if err := r.cluster.Served(); err != nil {
		return err
	}
	for _, n := range r.cluster.Nodes {
		s, err := n.Status()
		if err != nil {
			return err
		}
		for _, reason := range s.Reasons() {
			return fmt.Errorf("%s says %s: %s", n.Name, s.Health, reason)
		}
	}
	return nil
}

// equal checks that all members have the same data.
func (r *Run) equal() {
	r.t.Helper()
	client, err := r.client()
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var rev int64
	hashes := map[uint32][]string{}
	for _, url := range r.cluster.Endpoints() {
		if rev == 0 {
			resp, err := client.Get(ctx, "tombstone")
			if err != nil {
				r.t.Fatalf("read the revision: %v", err)
			}
			rev = resp.Header.Revision
		}
		r.cluster.Until(20*time.Second, "a member has reached the last revision", func() error {
			resp, err := client.HashKV(ctx, url, rev)
			if err == nil {
				hashes[resp.Hash] = append(hashes[resp.Hash], url)
			}
			return err
		})
	}
	if len(hashes) != 1 {
		r.t.Errorf("members differ at revision %d: %v", rev, hashes)
	}
}

func (r *Run) client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: r.cluster.Endpoints(), Logger: zap.NewNop(),
		DialTimeout: 2 * time.Second})
}

// members returns the data directories of the members, by slot. The nodes are killed, but their mounts are still there.
func (r *Run) members() map[string]string {
	dirs := map[string]string{}
	for i, n := range r.cluster.Nodes {
		found, _ := filepath.Glob(n.Machine.Host.Path(filepath.Join(n.Root, "*", "etcd")))
		if len(found) == 1 {
			dirs[slots[i]] = found[0]
		} else {
			r.t.Errorf("%s has %d data directories below %s", n.Name, len(found), n.Root)
		}
	}
	return dirs
}
