package proposal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// restoring is an operator whose store has a founded cluster, and what the operator is told. The node is that of the
// handler, nil for none.
func restoring(t *testing.T, node http.Handler) (o Operator, founding plan.Record, said *bytes.Buffer) {
	t.Helper()
	_, shelved, founding := shelved(t)
	said = new(bytes.Buffer)
	at := control.Local(t.TempDir() + "/none")
	if node != nil {
		s := httptest.NewServer(node)
		t.Cleanup(s.Close)
		at = &control.Client{At: "a test", URL: s.URL}
	}
	cfg := config.Default()
	cfg.Cluster.Name = "main"
	silent := func(context.Context, string) error { return errors.New("there is no terminal to ask on: say --yes") }
	return Operator{Name: "me@here", Config: cfg, Node: at, Backups: &backups.Backups{Config: cfg, Store: shelved.Store},
		Options: Options{Timeout: time.Minute}, Terminal: Terminal{Out: said, Err: said, Ask: silent}}, founding, said
}

// leading is the status of a node that leads.
func leading(state string) health.NodeStatus {
	return health.NodeStatus{Node: "n2", Address: "10.0.0.2", Live: true, Reached: true, State: state,
		Volume: &plan.Volume{Slot: "b", Disk: "d2"}, Etcd: &health.EtcdStatus{Status: plan.Status{Revision: 42}}}
}

func TestLeads(t *testing.T) {
	unreached, bare := leading("leader"), leading("leader")
	unreached.Reached, bare.Volume = false, nil
	stray := leading("leader")
	stray.Volume = &plan.Volume{Slot: "b", Disk: "d9"}
	for name, tc := range map[string]struct {
		cluster *health.ClusterStatus
		want    *plan.Stand
	}{
		"no node answers":        {nil, nil},
		"nobody leads":           {&health.ClusterStatus{Nodes: []health.NodeStatus{leading("follower"), leading("stalled")}}, nil},
		"it is not reached":      {&health.ClusterStatus{Nodes: []health.NodeStatus{unreached}}, nil},
		"it tells of no volume":  {&health.ClusterStatus{Nodes: []health.NodeStatus{bare}}, nil},
		"it is overruled":        {&health.ClusterStatus{Nodes: []health.NodeStatus{stray}}, nil},
		"one of them leads":      {&health.ClusterStatus{Nodes: []health.NodeStatus{leading("follower"), leading("leader")}}, &plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}},
		"it leads and is paused": {&health.ClusterStatus{Paused: &plan.Pause{}, Nodes: []health.NodeStatus{leading("leader")}}, &plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := view{tc.cluster}.leads([]string{"d9"})
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

var shining = coordinator.Beacon{Record: "r", Generation: 1, Stand: plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}}

// A beacon that changes while it is watched tells of a living leader, also on a store whose clock is decades off;
// nothing else does.
func TestLives(t *testing.T) {
	for name, tc := range map[string]struct {
		content  string        // of the beacon; empty: there is none
		age      time.Duration // by the store's time
		again    bool          // it is written again meanwhile
		overrule []string
		lives    bool
		node     string
		watches  bool
	}{
		"there is none":                      {},
		"it was written long ago":            {content: encoded(t, shining), age: beaconFresh + time.Second},
		"it was written long ago, and again": {content: encoded(t, shining), age: beaconFresh + time.Second, again: true}, // nobody waits for that
		"it is young, and does not change":   {content: encoded(t, shining), age: time.Second, watches: true},
		"it is young, and changes":           {content: encoded(t, shining), age: time.Second, again: true, watches: true, lives: true, node: "n2"},
		"it changes, and is overruled":       {content: encoded(t, shining), again: true, overrule: []string{"x", "d2"}},
		"another one is overruled":           {content: encoded(t, shining), again: true, overrule: []string{"d1"}, watches: true, lives: true, node: "n2"},
		"torn, and does not change":          {content: `{"node":`, watches: true},
		"torn, and long ago":                 {content: `{"node":`, age: time.Hour},
		"torn, and changes":                  {content: `{"node":`, again: true, watches: true, lives: true, node: "unknown"},
		"of nobody":                          {content: `{}`, again: true, watches: true, lives: true, node: "unknown"},
		"too large":                          {content: `{"node":"` + strings.Repeat("x", generations.MaxRecord) + `"}`, again: true, watches: true, lives: true, node: "unknown"},
		"hostile to the terminal":            {content: `{"node":"n1\u001b]0;x\u0007","disk":"d"}`, again: true, watches: true, lives: true, node: "unknown"},
		"with a long name":                   {content: `{"node":"` + strings.Repeat("x", 300) + `"}`, again: true, watches: true, lives: true, node: "unknown"},
		"with a negative revision":           {content: `{"node":"n1","revision":-1}`, again: true, watches: true, lives: true, node: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, _, said := restoring(t, nil)
				begin := time.Now()
				times := map[string]time.Time{"beacon.json": snapshottest.Epoch, filepath.Base(o.cluster().records.HereName("a command of " + o.Name)): snapshottest.Epoch.Add(tc.age)}
				o.Backups.Store = snapshottest.Dated{Store: o.Backups.Store, Times: times}
				if tc.again {
					o.Backups.Store = relit{o.Backups.Store, begin}
				}
				if tc.content != "" {
					must(t, o.Backups.Store.Put(t.Context(), o.cluster().records.BeaconName(), strings.NewReader(tc.content)))
				}
				o.Overrule = tc.overrule
				got, err := o.cluster().lives(t.Context(), new(view))
				if err != nil || (got != nil) != tc.lives || got != nil && !strings.HasPrefix(got.Node, tc.node) {
					t.Errorf("got %+v, %v", got, err)
				}
				if watched := time.Since(begin) >= coordinator.BeaconEvery; watched != tc.watches {
					t.Errorf("watched for %s", time.Since(begin))
				}
				if strings.ContainsAny(said.String(), "\x1b\x07") || said.Len() > 2000 {
					t.Errorf("said %.2000q", said.String())
				}
			})
		})
	}
}

// relit is a store whose beacon is written again some seconds after it began.
type relit struct {
	snapshot.Store
	begin time.Time
}

func (r relit) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	objects, err := r.Store.List(ctx, prefix)
	for i, o := range objects {
		if filepath.Base(o.Name) == "beacon.json" && time.Since(r.begin) > beaconWatch/2 {
			objects[i].Modified = o.Modified.Add(coordinator.BeaconEvery)
		}
	}
	return objects, err
}

// What the nodes show counts before the beacon.
func TestLivesByItsNodes(t *testing.T) {
	o, _, _ := restoring(t, nil)
	v := view{&health.ClusterStatus{Nodes: []health.NodeStatus{leading("leader")}}}
	if got, err := o.cluster().lives(t.Context(), &v); err != nil || got == nil || got.Node != "n2" ||
		got.from != "its nodes" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A majority that runs is given time to elect a leader before it is said to have none; less than that is not.
func TestLivesWhoeverIsElected(t *testing.T) {
	slot := func(name, state string) health.NodeStatus {
		n := leading(state)
		n.Node, n.Live, n.Volume = "n"+name, true, &plan.Volume{Slot: name, Disk: "d" + name}
		return n
	}
	looks := 0
	o, _, said := restoring(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks++
		b := slot("b", "follower")
		if looks > 1 {
			b = slot("b", "leader")
		}
		_ = json.NewEncoder(w).Encode(health.ClusterStatus{Record: &plan.Record{Charter: plan.Charter{Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}}}}, Nodes: []health.NodeStatus{slot("a", "follower"), b}})
	}))
	v := o.cluster().ask(t.Context())
	if got, err := o.cluster().lives(t.Context(), &v); err != nil || got == nil || got.Node != "nb" ||
		!strings.Contains(said.String(), "for an election") {
		t.Errorf("got %+v, %v; said %q", got, err, said)
	}
	said.Reset()
	v.Nodes = []health.NodeStatus{slot("a", "follower")}
	if got, err := o.cluster().lives(t.Context(), &v); err != nil || got != nil || said.Len() > 0 {
		t.Errorf("of one of three: got %+v, %v; said %q", got, err, said)
	}
}

// A node that has just come back has not found the leader of the present generation yet, whose beacon is young: it is
// proposed to that leader, and not as to a cluster without one. Who does not find it proposes nothing.
func TestInsteadOfALeaderNotFoundYet(t *testing.T) {
	for _, found := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o, founding, said := restoring(t, nil)
			asked := 0
			o.Node.HTTP.Transport = roundTrip(func(q *http.Request) (any, error) {
				switch asked++; {
				case q.URL.Path == "/rejoin":
					return plan.Restore{ID: "p1", Generation: founding.Generation + 1, Survivor: "c"}, nil
				case q.URL.Path == "/consent":
					return nil, errors.New("not today")
				case asked == 1 || !found:
					return health.ClusterStatus{}, nil
				}
				return health.ClusterStatus{Nodes: []health.NodeStatus{leading("leader")}}, nil
			})
			o.Backups.Store = snapshottest.Dated{Store: o.Backups.Store, Times: map[string]time.Time{"beacon.json": snapshottest.Epoch, filepath.Base(o.cluster().records.HereName("a command of " + o.Name)): snapshottest.Epoch}}
			if !found {
				o.Backups.Store = relit{o.Backups.Store, time.Now()}
			}
			must(t, o.cluster().records.Shine(t.Context(), shining))
			o.Yes = true
			want := "did not consent: "
			if !found {
				want = "does not see it"
			}
			if err := o.Instead(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v: got %v; said %q", found, err, said)
			}
		})
	}
}

// A cluster is not given up while its leader writes into the store, however little of it this node hears.
func TestMayGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		lit, again bool
		overrule   []string
		want       string
	}{
		"no beacon":             {false, false, nil, ""},
		"a beacon that is old":  {true, false, nil, ""},
		"a living cluster":      {true, true, nil, "the cluster lives: "},
		"one that is overruled": {true, true, []string{shining.Disk}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			o, _, _ := restoring(t, nil)
			o.Node.HTTP.Transport = roundTrip(func(*http.Request) (any, error) { return health.ClusterStatus{}, nil })
			o.Overrule = c.overrule
			o.Backups.Store = snapshottest.Dated{Store: o.Backups.Store, Times: map[string]time.Time{"beacon.json": snapshottest.Epoch, filepath.Base(o.cluster().records.HereName("a command of " + o.Name)): snapshottest.Epoch}}
			if c.again {
				o.Backups.Store = relit{o.Backups.Store, time.Now()}
			}
			if c.lit {
				must(t, o.cluster().records.Shine(t.Context(), shining))
			}
			err := o.MayGiveUp(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !(strings.HasPrefix(err.Error(), c.want) && strings.Contains(err.Error(), "gossip.seeds")) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		})
	}
	o, _, _ := restoring(t, nil)
	o.Backups.Store = broken{o.Backups.Store}
	if err := o.MayGiveUp(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("with a store that is away: got %v", err)
	}
}

// A store that does not answer is no dead leader.
func TestLivesNobodyKnows(t *testing.T) {
	o, _, _ := restoring(t, nil)
	o.Backups.Store = broken{o.Backups.Store}
	if got, err := o.cluster().lives(t.Context(), new(view)); err == nil {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o, _, _ = restoring(t, nil)
	must(t, o.cluster().records.Shine(ctx, shining))
	o.Err = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }) // as it begins to watch
	if got, err := o.cluster().lives(ctx, new(view)); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("interrupted: got %+v, %v", got, err)
	}
}

// roundTrip answers requests, errors as a node does.
type roundTrip func(*http.Request) (any, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	v, err := f(q)
	control.Reply(w, v, err)
	return w.Result(), nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// broken is a store that lists nothing.
type broken struct{ snapshot.Store }

func (broken) List(context.Context, string) ([]snapshot.Object, error) {
	return nil, errors.New("the store is away")
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

// Ctrl-C while the beacon is watched says once that nothing was changed.
func TestLivesInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, _ := restoring(t, nil)
		name := filepath.Base(o.cluster().records.HereName("a command of " + o.Name))
		o.Backups.Store = snapshottest.Dated{Store: o.Backups.Store,
			Times: map[string]time.Time{"beacon.json": snapshottest.Epoch, name: snapshottest.Epoch}}
		if err := o.Backups.Store.Put(t.Context(), o.cluster().records.BeaconName(), strings.NewReader(encoded(t,
			shining))); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if err := o.MayGiveUp(ctx); err == nil || strings.Count(err.Error(), "nothing was changed") != 1 ||
			!strings.Contains(err.Error(), "interrupted") {
			t.Errorf("got %v", err)
		}
	})
}
