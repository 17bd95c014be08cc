package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// What the checks of `holdfast doctor` go by. All of it is collected first, and judged afterwards without asking anybody.

// evidence is all that was found out. What could not be is marked as such.
type evidence struct {
	Status  coordinator.ClusterStatus
	Offline string // not empty: no node answers on this machine, and why; then only the files and the store were looked at
	Nodes   []examined

	Endpoints, Events leases
	Backups           []snapshot.Backup
	BackupsErr        string // why the store could not be read
	Now               time.Time
}

// examined is one node's checkup. Nodes that did not answer have none.
type examined struct {
	Status          coordinator.NodeStatus
	Checkup         *checkup
	Err             string // why there is no checkup
	Asked, Answered time.Time
}

// leases are the keys of Kubernetes that should be bound to one.
type leases struct {
	embedded.Unleased
	Err string // why they could not be read
}

// checkup is what a node says of itself beside its status.
type checkup struct {
	Node     string            `json:"node"`
	Time     time.Time         `json:"time"`
	Leader   bool              `json:"leader,omitempty"`
	Member   uint64            `json:"member,omitempty"`  // its own, 0 if none runs
	Members  []plan.MemberInfo `json:"members,omitempty"` // as applied there
	Names    map[uint64]string `json:"names,omitempty"`   // of members, as they have told
	Fsync    *quantile         `json:"fsync,omitempty"`   // of the write-ahead log
	Commit   *quantile         `json:"commit,omitempty"`  // of the database
	Room     *room             `json:"room,omitempty"`    // on the volume
	RoomErr  string            `json:"room_error,omitempty"`
	Files    []file            `json:"files,omitempty"`
	Problems []string          `json:"problems,omitempty"`
	Cures    bool              `json:"cures,omitempty"` // upkeep.cure-nospace
}

// quantile is the 99th percentile of a histogram, in seconds, of Count samples.
type quantile struct {
	Seconds float64 `json:"seconds"`
	Count   uint64  `json:"count"`
}

// room is what a file system has, in bytes.
type room struct {
	Free  int64 `json:"free"`
	Total int64 `json:"total"`
}

// askForCheckup is the question for a node's checkup.
const askForCheckup = "checkup"

// checkup examines this node.
func (n *node) checkup() checkup {
	now := n.coord.Now()
	m := now.Observation.Member
	c := checkup{Node: n.cfg.Node.Name, Leader: m.Leader && m.HasLead, Member: m.ID, Members: m.Members, Names: map[uint64]string{},
		Files: lookAtFiles(n.cfg), Problems: n.surroundings(), Cures: n.cfg.Upkeep.CureNoSpace}
	for _, i := range n.etcd.Members() {
		c.Names[i.ID] = i.Name
	}
	if m.Running {
		c.Fsync, c.Commit = diskTimes(prometheus.DefaultGatherer)
	}
	if now.Observation.Claim.Held {
		var err error
		if c.Room, err = roomOn(now.Path); err != nil {
			c.RoomErr = err.Error()
		}
	}
	c.Time = time.Now() // at the end, so that only the way back is between it and whoever asks
	return c
}

// roomOn asks the file system at path, which may hang.
func roomOn(path string) (*room, error) {
	type answer struct {
		st  unix.Statfs_t
		err error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.err = unix.Statfs(path, &a.st)
		done <- a
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return nil, fmt.Errorf("look for room on %s: %w", path, a.err)
		}
		return &room{Free: int64(a.st.Bavail) * int64(a.st.Bsize), Total: int64(a.st.Blocks) * int64(a.st.Bsize)}, nil
	case <-time.After(roomTime):
		return nil, fmt.Errorf("look for room on %s: no answer within %s", path, roomTime)
	}
}

// roomTime is how long a volume may take to say how much room it has.
const roomTime = 2 * time.Second

// diskTimes are etcd's own figures of the disk, over the life of this process; nil where there are none.
func diskTimes(from prometheus.Gatherer) (fsync, commit *quantile) {
	families, _ := from.Gather() // what could be gathered is here, whatever else could not
	for _, f := range families {
		of := map[string]**quantile{"etcd_disk_wal_fsync_duration_seconds": &fsync, "etcd_disk_backend_commit_duration_seconds": &commit}[f.GetName()]
		if of == nil || len(f.GetMetric()) == 0 {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		var bounds []float64
		var below []uint64
		for _, b := range h.GetBucket() {
			bounds, below = append(bounds, b.GetUpperBound()), append(below, b.GetCumulativeCount())
		}
		*of = &quantile{percentile99(bounds, below, h.GetSampleCount()), h.GetSampleCount()}
	}
	return fsync, commit
}

// percentile99 is the 99th percentile as Prometheus' histogram_quantile reckons it: evenly spread within a bucket, and
// the highest bound for what is beyond.
func percentile99(bounds []float64, below []uint64, count uint64) float64 {
	rank := 0.99 * float64(count)
	lower, under := 0.0, uint64(0)
	for i, bound := range bounds {
		if float64(below[i]) >= rank && below[i] > under {
			return lower + (bound-lower)*(rank-float64(under))/float64(below[i]-under)
		}
		lower, under = bound, below[i]
	}
	return lower
}

const (
	doctorTime = 15 * time.Second // for all questions to nodes and to the store
	// endpointsPrefix holds the addresses of living API servers, each bound to a lease of 15 s, and eventsPrefix the
	// events, with a lease of an hour. Both are kube-apiserver's, with its default --etcd-prefix.
	endpointsPrefix = "/registry/masterleases/"
	eventsPrefix    = "/registry/events/"
	mostEndpoints   = 1000
	mostEvents      = 1000 // that are looked at, for there may be many
)

// collect asks every node, etcd and the store.
func (n *node) collect(ctx context.Context) evidence {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	e := evidence{Now: time.Now(), Status: n.statusOfAll(ctx)}
	e.Nodes = make([]examined, len(e.Status.Nodes))
	var wg sync.WaitGroup
	for i, s := range e.Status.Nodes {
		wg.Go(func() { e.Nodes[i] = n.examine(ctx, s) })
	}
	wg.Go(func() {
		e.Endpoints, e.Events = n.unleased(ctx, endpointsPrefix, mostEndpoints), n.unleased(ctx, eventsPrefix, mostEvents)
	})
	wg.Go(func() { e.Backups, e.BackupsErr = backupsIn(ctx, n.store, n.Identity()) })
	wg.Wait()
	return e
}

func (n *node) examine(ctx context.Context, s coordinator.NodeStatus) examined {
	x := examined{Status: s, Asked: time.Now()}
	if s.Node == n.cfg.Node.Name {
		c := n.checkup()
		x.Checkup, x.Answered = &c, time.Now()
		return x
	}
	if !s.Live || !s.Reached {
		x.Err = s.Why
		return x
	}
	data, err := n.mesh.Ask(ctx, s.Node, []byte(askForCheckup))
	x.Answered = time.Now()
	c := new(checkup)
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	if err != nil {
		x.Err = err.Error()
		return x
	}
	x.Checkup = c
	return x
}

func (n *node) unleased(ctx context.Context, prefix string, limit int64) leases {
	u, err := n.etcd.Unleased(ctx, prefix, limit)
	if err != nil {
		return leases{Err: err.Error()}
	}
	return leases{Unleased: u}
}

// backupsIn lists a store. One that hangs does not hold up the rest.
func backupsIn(ctx context.Context, store snapshot.Store, id snapshot.Identity) ([]snapshot.Backup, string) {
	type listing struct {
		all []snapshot.Backup
		err error
	}
	done := make(chan listing, 1)
	go func() {
		all, err := snapshot.List(ctx, store, id)
		done <- listing{all, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return nil, l.err.Error()
		}
		return l.all, ""
	case <-ctx.Done():
		return nil, "the store does not answer: " + context.Cause(ctx).Error()
	}
}

// collectAlone looks at what can be looked at without a node: the files and the store.
func collectAlone(ctx context.Context, cfg Config, why error) evidence {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	now := time.Now()
	self := checkup{Node: cfg.Node.Name, Time: now, Files: lookAtFiles(cfg)}
	e := evidence{Now: now, Offline: why.Error(), Status: coordinator.ClusterStatus{Cluster: cfg.Cluster.Name}}
	e.Nodes = []examined{{Status: coordinator.NodeStatus{Node: cfg.Node.Name}, Checkup: &self, Asked: now, Answered: now}}
	store, err := openStore(ctx, cfg)
	if err != nil {
		e.BackupsErr = err.Error()
		return e
	}
	id, err := storeIdentity(ctx, store, cfg.Cluster.Name)
	if err != nil {
		e.BackupsErr = err.Error()
		return e
	}
	e.Backups, e.BackupsErr = backupsIn(ctx, store, id)
	return e
}
