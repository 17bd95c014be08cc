package cmd

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

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// restoring is a restoration on a store with a founded cluster, and what it says. Its node is that of the handler, nil for none.
func restoring(t *testing.T, node http.Handler) (r *restoration, founding plan.Record, said *bytes.Buffer) {
	t.Helper()
	_, shelved, founding := shelved(t)
	said = new(bytes.Buffer)
	c := &cobra.Command{}
	c.SetOut(said)
	c.SetErr(said)
	c.SetIn(strings.NewReader("yes\n")) // no terminal
	at := control.Local(t.TempDir() + "/none")
	if node != nil {
		s := httptest.NewServer(node)
		t.Cleanup(s.Close)
		at = &control.Client{At: "a test", URL: s.URL}
	}
	cfg := config.Default()
	cfg.Cluster.Name = "main"
	return &restoration{c: c, flags: restoreFlags{timeout: time.Minute}, b: &backupStore{cfg: cfg, main: shelved.Store}, node: at, records: shelved}, founding, said
}

// leading is the status of a node that leads.
func leading(state string) health.NodeStatus {
	return health.NodeStatus{Node: "n2", Address: "10.0.0.2", Live: true, Reached: true, State: state,
		Volume: &health.VolumeStatus{Slot: "b", Disk: "d2"}, Etcd: &health.EtcdStatus{Revision: 42}}
}

func TestLeads(t *testing.T) {
	unreached, bare := leading("leader"), leading("leader")
	unreached.Reached, bare.Volume = false, nil
	for name, tc := range map[string]struct {
		cluster *health.ClusterStatus
		want    *plan.Stand
	}{
		"no node answers":        {nil, nil},
		"nobody leads":           {&health.ClusterStatus{Nodes: []health.NodeStatus{leading("follower"), leading("stalled")}}, nil},
		"it is not reached":      {&health.ClusterStatus{Nodes: []health.NodeStatus{unreached}}, nil},
		"it tells of no volume":  {&health.ClusterStatus{Nodes: []health.NodeStatus{bare}}, nil},
		"one of them leads":      {&health.ClusterStatus{Nodes: []health.NodeStatus{leading("follower"), leading("leader")}}, &plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}},
		"it leads and is paused": {&health.ClusterStatus{Paused: &plan.Pause{}, Nodes: []health.NodeStatus{leading("leader")}}, &plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&restoration{cluster: tc.cluster}).leads()
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

var shining = coordinator.Beacon{Record: "r", Generation: 1, Stand: plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Address: "10.0.0.2", Revision: 42, Leader: true}}

// A beacon that changes while it is watched tells of a living leader, also on a store whose clock is decades off; nothing else does.
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
				r, _, said := restoring(t, nil)
				begin := time.Now()
				times := map[string]time.Time{"beacon.json": storeEpoch, filepath.Base(r.records.HereName("a command of " + operator())): storeEpoch.Add(tc.age)}
				r.records.Store = timedStore{r.records.Store, times}
				if tc.again {
					r.records.Store = relit{r.records.Store, begin}
				}
				if tc.content != "" {
					if err := r.records.Store.Put(t.Context(), r.records.BeaconName(), strings.NewReader(tc.content)); err != nil {
						t.Fatal(err)
					}
				}
				r.flags.overrule = tc.overrule
				got, err := r.lives(t.Context())
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
	r, _, _ := restoring(t, nil)
	r.cluster = &health.ClusterStatus{Nodes: []health.NodeStatus{leading("leader")}}
	if got, err := r.lives(t.Context()); err != nil || got == nil || got.Node != "n2" || got.from != "its nodes" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A majority that runs is given time to elect a leader before it is said to have none; less than that is not.
func TestLivesWhoeverIsElected(t *testing.T) {
	slot := func(name, state string) health.NodeStatus {
		n := leading(state)
		n.Node, n.Live, n.Volume = "n"+name, true, &health.VolumeStatus{Slot: name, Disk: "d" + name}
		return n
	}
	looks := 0
	r, _, said := restoring(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks++
		b := slot("b", "follower")
		if looks > 1 {
			b = slot("b", "leader")
		}
		_ = json.NewEncoder(w).Encode(health.ClusterStatus{Record: &plan.Record{Charter: plan.Charter{Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}}}}, Nodes: []health.NodeStatus{slot("a", "follower"), b}})
	}))
	r.cluster = r.ask(t.Context())
	if got, err := r.lives(t.Context()); err != nil || got == nil || got.Node != "nb" || !strings.Contains(said.String(), "for an election") {
		t.Errorf("got %+v, %v; said %q", got, err, said)
	}
	said.Reset()
	r.cluster.Nodes = []health.NodeStatus{slot("a", "follower")}
	if got, err := r.lives(t.Context()); err != nil || got != nil || said.Len() > 0 {
		t.Errorf("of one of three: got %+v, %v; said %q", got, err, said)
	}
}

// A node that has just come back has not found the leader of the present generation yet, whose beacon is young: it is proposed to
// that leader, and not as to a cluster without one. Who does not find it proposes nothing.
func TestInsteadOfALeaderNotFoundYet(t *testing.T) {
	for _, found := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, founding, said := restoring(t, nil)
			asked := 0
			r.node.HTTP.Transport = roundTrip(func(q *http.Request) (any, error) {
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
			r.records.Store = timedStore{r.records.Store, map[string]time.Time{"beacon.json": storeEpoch, filepath.Base(r.records.HereName("a command of " + operator())): storeEpoch}}
			if !found {
				r.records.Store = relit{r.records.Store, time.Now()}
			}
			if err := r.records.Shine(t.Context(), shining); err != nil {
				t.Fatal(err)
			}
			r.flags.yes = true
			want := "did not consent: "
			if !found {
				want = "does not see it"
			}
			if err := r.instead(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v: got %v; said %q", found, err, said)
			}
		})
	}
}

// A store that does not answer is no dead leader.
func TestLivesNobodyKnows(t *testing.T) {
	r, _, _ := restoring(t, nil)
	r.records.Store = broken{r.records.Store}
	if got, err := r.lives(t.Context()); err == nil {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _, _ = restoring(t, nil)
	if err := r.records.Shine(ctx, shining); err != nil {
		t.Fatal(err)
	}
	r.c.SetErr(writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })) // as it begins to watch
	if got, err := r.lives(ctx); err == nil || !strings.Contains(err.Error(), "interrupted") {
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
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// consenting answers POST /consent with an error, nil for none, and notes what was confirmed.
func consenting(confirmed *[]string, refusal error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		*confirmed = append(*confirmed, r.FormValue("proposal")+" by "+r.FormValue("by"))
		control.Reply(w, plan.Restore{}, refusal)
	})
	return mux
}

// A proposal to a living cluster is confirmed at once where a node answers, waits where none does, and is withdrawn where the cluster
// does not consent. To one without a leader nobody consents.
func TestPropose(t *testing.T) {
	led := &shining.Stand
	for name, tc := range map[string]struct {
		led     *plan.Stand
		node    bool
		refusal error
		asked   bool   // to consent
		open    bool   // in the end
		want    string // of the error, empty: none
		says    string
	}{
		"consent":           {led: led, node: true, asked: true, open: true, says: "the cluster consents: the members prepare, and the cluster serves on"},
		"no node answers":   {led: led, open: true, says: "holdfast restore --confirm "},
		"the leader is out": {led: led, node: true, refusal: coordinator.ErrUnled, asked: true, want: "did not consent: no member that has a leader answers; the proposal was withdrawn, nothing was changed"},
		"leaderless":        {node: true, open: true, says: "No leader was seen: each voter waits 15s"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var node http.Handler
			if tc.node {
				node = consenting(&asked, tc.refusal)
			}
			r, founding, said := restoring(t, node)
			p := proposed(founding, 0)
			p.Led = tc.led
			err := r.propose(t.Context(), p)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(said.String(), tc.says) || !strings.Contains(said.String(), p.ID) {
				t.Errorf("said %q", said)
			}
			if (len(asked) > 0) != tc.asked || tc.asked && asked[0] != p.ID+" by "+operator() {
				t.Errorf("asked for %q", asked)
			}
			s := knownTo(t, r.records)
			if (s.Restore != nil) != tc.open || len(s.Aborted) > 0 == tc.open {
				t.Errorf("left %+v, aborted %+v", s.Restore, s.Aborted)
			}
			if !tc.open {
				return
			}
			if err := r.propose(t.Context(), proposed(founding, 0)); err == nil || !errors.Is(err, plan.ErrConflict) {
				t.Errorf("a second one: got %v", err)
			}
			if s := knownTo(t, r.records); s.Restore == nil || s.Restore.ID != p.ID {
				t.Errorf("the first one is gone: %+v", s)
			}
		})
	}
}

// What cannot be withdrawn is said, with the reason for it.
func TestWithdrawFails(t *testing.T) {
	var asked []string
	r, founding, _ := restoring(t, consenting(&asked, errors.New("no space")))
	r.records.Store = &putsOnce{Store: r.records.Store}
	p := proposed(founding, 0)
	p.Led = &shining.Stand
	err := r.propose(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "no space") || !strings.Contains(err.Error(), "could not be withdrawn: the store is full") || strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
}

// putsOnce is a store that takes one more object.
type putsOnce struct {
	snapshot.Store
	full bool
}

func (p *putsOnce) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if p.full {
		return errors.New("the store is full")
	}
	p.full = true
	return p.Store.PutIfAbsent(ctx, name, data)
}

func TestConfirm(t *testing.T) {
	led := &shining.Stand
	for name, tc := range map[string]struct {
		led     *plan.Stand
		none    bool // no proposal is open
		id      string
		flags   restoreFlags
		silent  bool // no node answers
		refusal error
		asked   bool
		want    string // of the error, empty: none
	}{
		"none is open":          {none: true, want: "no restore of cluster main is proposed; the store knows it as main@1-"},
		"another one":           {led: led, id: "other", flags: restoreFlags{yes: true}, want: "and not other; nothing was changed"},
		"leaderless":            {flags: restoreFlags{yes: true}, want: "says that the cluster has no leader"},
		"no node answers":       {led: led, flags: restoreFlags{yes: true}, silent: true, want: "confirm it on a node of the cluster"},
		"what would happen":     {led: led, flags: restoreFlags{dryRun: true, yes: true}},
		"nobody says yes":       {led: led, want: "say --yes"},
		"the leader is gone":    {led: led, flags: restoreFlags{yes: true}, refusal: coordinator.ErrUnled, asked: true, want: "no member that has a leader answers; the proposal is still open"},
		"confirmed":             {led: led, flags: restoreFlags{yes: true}, asked: true},
		"confirmed by its name": {led: led, id: "its own", flags: restoreFlags{yes: true}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var r *restoration
			var p plan.Restore
			var founding plan.Record
			var said *bytes.Buffer
			s := health.ClusterStatus{Cluster: "main"}
			mux := http.NewServeMux()
			mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { control.Reply(w, s, nil) })
			mux.HandleFunc("POST /look", func(w http.ResponseWriter, _ *http.Request) { control.Reply(w, struct{}{}, nil) })
			mux.HandleFunc("POST /consent", func(w http.ResponseWriter, q *http.Request) {
				asked = append(asked, q.FormValue("proposal"))
				if tc.refusal == nil { // the cluster does what it has consented to
					born := concludedOf(p, founding)
					if err := r.records.Conclude(q.Context(), born); err != nil {
						t.Error(err)
					}
					s.Record, s.Health = &born, health.Healthy
				}
				control.Reply(w, p, tc.refusal)
			})
			if tc.silent {
				r, founding, said = restoring(t, nil)
			} else {
				r, founding, said = restoring(t, mux)
			}
			p = proposed(founding, 0)
			p.Led, p.By = tc.led, "someone"
			if !tc.none {
				if err := r.records.Propose(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if tc.id == "its own" {
				tc.id = p.ID
			}
			tc.flags.timeout = time.Minute
			r.flags = tc.flags
			err := r.confirmOpen(t.Context(), tc.id)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if (len(asked) > 0) != tc.asked || tc.asked && asked[0] != p.ID {
				t.Errorf("confirmed %q", asked)
			}
			if tc.asked || tc.flags.dryRun {
				if !strings.Contains(said.String(), "by someone, who was shown that node n2 (slot b) at 10.0.0.2, revision 42 leads") {
					t.Errorf("said %q", said)
				}
			}
			if got := knownTo(t, r.records); !tc.none && !(tc.asked && tc.want == "") && got.Restore == nil {
				t.Errorf("it is not open any more: %+v", got)
			}
		})
	}
}

// Who is told of an objection is told who objected, and what to do about it.
func TestObjected(t *testing.T) {
	leader := shining.Stand
	voter := plan.Stand{Node: "n3", Slot: "c", Disk: "d3", Address: "10.0.0.3", Revision: 7}
	for name, tc := range map[string]struct {
		p    plan.Restore
		a    plan.Abort
		want []string
		not  string
	}{
		"by a leader, to a restore": {plan.Restore{Backup: "b1"}, plan.Abort{Why: "it leads", By: &leader},
			[]string{"node n2 (slot b) at 10.0.0.2, revision 42 objected: it leads", "restore of b1 was aborted, and nothing was changed", "without --lost, and confirm it on that node"}, "--overrule"},
		"by a leader, to a recovery": {plan.Restore{Survivor: "a"}, plan.Abort{Why: "it leads", By: &leader},
			[]string{"recovery from slot a was aborted", "a recovery is not needed"}, "--overrule"},
		"by a voter without a leader": {plan.Restore{Survivor: "a"}, plan.Abort{Why: "it runs", By: &voter},
			[]string{"node n3 (slot c)", "or say --overrule d3"}, "not needed"},
		"by a second voter": {plan.Restore{Survivor: "a", Overruled: []string{"d1"}}, plan.Abort{Why: "it runs", By: &voter},
			[]string{"or say --overrule d1,d3"}, "not needed"},
		"by an operator": {plan.Restore{Backup: "b1"}, plan.Abort{Why: "aborted by root@x"},
			[]string{"the restore of b1 was aborted: aborted by root@x; the cluster continues as it was"}, "objected"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&follower{p: tc.p}).objected(tc.a)
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwithout %q", err, want)
				}
			}
			if strings.Contains(err.Error(), tc.not) {
				t.Errorf("got %v\nwith %q", err, tc.not)
			}
		})
	}
	if p := (plan.Restore{Overruled: append(make([]string, 0, 8), "d1")}); true { // the proposal itself stays as it is
		_ = (&follower{p: p}).objected(plan.Abort{By: &voter})
		if got := p.Overruled[:2]; got[1] != "" {
			t.Errorf("the proposal's list was written to: %q", got)
		}
	}
}
