package ebs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// planner is a metadata service of version 2 with answers for certain paths.
func planner(t *testing.T, paths map[string]string, status *atomic.Int32) *EC2 {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/latest/api/token" && status.Load() != -http.StatusNotFound {
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "token")
			return
		}
		text, ok := paths[strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")]
		switch s := int(status.Load()); {
		case s > 0:
			http.Error(w, "no", s)
		case s < 0 || !ok:
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(server.Close)
	return newTestEC2(t, Config{Instance: "i-1", Region: "eu-test-1", Zone: "eu-test-1a", MetadataEndpoint: server.URL}, nil)
}

func TestLifecycle(t *testing.T) {
	at := time.Date(2026, 11, 23, 8, 22, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		paths map[string]string
		want  Lifecycle
		says  string // in the reason to leave
	}{
		"nothing":    {nil, Lifecycle{}, ""},
		"in service": {map[string]string{"autoscaling/target-lifecycle-state": "InService"}, Lifecycle{Target: "InService"}, ""},
		"warm": {map[string]string{"autoscaling/target-lifecycle-state": "Warmed:Stopped\n"}, Lifecycle{Target: "Warmed:Stopped"},
			"warm pool (Warmed:Stopped)"},
		"scale-in": {map[string]string{"autoscaling/target-lifecycle-state": "Terminated"}, Lifecycle{Target: "Terminated"},
			"terminate this instance"},
		"interruption": {map[string]string{"spot/instance-action": `{"action": "terminate", "time": "2026-11-23T08:22:00Z"}`},
			Lifecycle{Action: "terminate", At: at}, "EC2 will terminate this Spot instance at 08:22:00 UTC"},
		"rebalance": {map[string]string{"events/recommendations/rebalance": `{"noticeTime": "2026-11-23T08:22:00Z"}`},
			Lifecycle{Rebalance: at}, ""},
	} {
		e := planner(t, test.paths, &atomic.Int32{})
		got, err := e.Lifecycle(t.Context(), Lifecycle{Target: "before", Action: "before", Rebalance: at.Add(1)})
		if got != test.want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, test.want)
		}
		if says := got.Leaves(); (says == "") != (test.says == "") || !strings.Contains(says, test.says) {
			t.Errorf("%s: got %q, want %q", name, says, test.says)
		}
	}
}

// If the metadata service gives no answer, or one in an unknown form, nothing changes.
func TestLifecycleThatIsNotTold(t *testing.T) {
	last := Lifecycle{Target: "InService", Rebalance: time.Unix(1700000000, 0)}
	var status atomic.Int32
	for _, s := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, -http.StatusNotFound} {
		status.Store(int32(s)) // negative: for the token
		e := planner(t, nil, &status)
		ctx, cancel := context.WithTimeout(t.Context(), outlookWait)
		if got, err := e.Lifecycle(ctx, last); got != last || err == nil {
			t.Errorf("%d: got %+v, %v, want an error and nothing changed", s, got, err)
		}
		cancel()
	}
	status.Store(0)
	e := planner(t, map[string]string{"spot/instance-action": "soon", "autoscaling/target-lifecycle-state": "Standby",
		"events/recommendations/rebalance": `{"noticeTime": 5}`}, &status)
	want := last
	want.Target = "Standby"
	if got, err := e.Lifecycle(t.Context(), last); got != want || err == nil {
		t.Errorf("got %+v, %v, want what could be read, %+v, and an error", got, err, want)
	}
}

// The service is asked at most every five seconds, and waited for at most two seconds. Its last answer stands while it
// fails.
func TestOutlook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, fails, hangs := 0, false, false
		next := Lifecycle{Target: "Warmed:Running"}
		plans := func(ctx context.Context, last Lifecycle) (Lifecycle, error) {
			asked++
			if hangs {
				<-ctx.Done()
			}
			if fails || hangs {
				return last, errors.New("no answer")
			}
			return next, nil
		}
		o := newOutlook(service{plans: plans}, zap.NewNop())
		want := func(target string, times int) {
			t.Helper()
			if got := o.look(t.Context()); got.Target != target || asked != times {
				t.Errorf("got %+v after %d questions, want %s after %d", got, asked, target, times)
			}
		}
		want("Warmed:Running", 1)
		next.Target = "InService"
		want("Warmed:Running", 1) // too soon
		fails = true
		time.Sleep(outlookEvery)
		want("Warmed:Running", 2)
		fails, hangs = false, true
		time.Sleep(outlookEvery)
		before := time.Now()
		want("Warmed:Running", 3)
		if took := time.Since(before); took != outlookWait {
			t.Errorf("waited %s, want %s", took, outlookWait)
		}
		hangs = false
		time.Sleep(outlookEvery)
		want("InService", 4)
	})
}

// An instance of a warm pool claims nothing and says why. As soon as its group wants it, it looks for a volume, and a
// node of its zone may leave it one.
func TestWarmInstanceClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, rebalance := "Warmed:Stopped", time.Time{}
		looked := false
		cloud := lookedAt{looked: &looked}
		host := Host{Memory: forgetful{}, Devices: func() (map[string]string, error) { return nil, nil }}
		plans := func(context.Context, Lifecycle) (Lifecycle, error) {
			return Lifecycle{Target: target, Rebalance: rebalance}, nil
		}
		p := New(Default(), Node{Name: "x", Cluster: "main"}, cloud, host,
			service{Self{Instance: "i-1", Zone: "z"}, plans}, nil, zap.NewNop())
		if got := p.Standby(); got != "" {
			t.Errorf("before anything was tried it stands by in %q", got)
		}
		claim := func() error {
			_, err := p.Claim(t.Context(), volume.Want{Cluster: "main", Slots: []string{"a"}})
			return err
		}
		err := claim()
		if !errors.Is(err, volume.ErrNoneFree) || !strings.Contains(err.Error(), "warm pool (Warmed:Stopped)") || looked {
			t.Errorf("got %v, looked: %t, want a standby that says why and does not look", err, looked)
		}
		if now := p.Progress(); now.State != stateStandby || !strings.Contains(now.Why, "warm pool") {
			t.Errorf("got %+v", now)
		}
		if got := p.Problems(); len(got) != 0 {
			t.Errorf("got %q, want no problem: it is where it should be", got)
		}
		if got := p.Standby(); got != "" {
			t.Errorf("in the warm pool it stands by in %q", got)
		}
		target = "InService"
		time.Sleep(outlookEvery)
		if err := claim(); !looked {
			t.Errorf("in service: got %v, want it to look for a volume", err)
		}
		if got := p.Standby(); got != "z" {
			t.Errorf("in service it stands by in %q, want z", got)
		}
		rebalance = time.Now() // a volume that moved here would soon have to move again
		time.Sleep(outlookEvery)
		_ = claim()
		if got := p.Standby(); got != "" {
			t.Errorf("at an elevated risk of interruption it stands by in %q", got)
		}
	})
}

// The volumes still at an instance that must go are detached, whichever process left them there: after a failed detach,
// or after a process ended under the notice. Another program's volume stays, and so does a volume that is mounted.
func TestGoingInstanceGivesTheRestBack(t *testing.T) {
	of := func(instance string) map[string]string {
		return map[string]string{TagClaim: claimTag{Epoch: 3, Instance: instance, Node: "x", Nonce: rand.Text(),
			Phase: volume.PhaseHeld, Since: time.Unix(1700000000, 0),
			Address: netip.MustParseAddrPort("10.0.0.1:7946")}.String()}
	}
	for name, c := range map[string]struct {
		journal Journal
		tags    map[string]string
		mounted string
		refused bool // the first detach
		told    int  // how often the metadata service answers, 0 for always; at its other path it never does
		want    []string
	}{
		"a detach that was accepted": {journal: Journal{Detaching: map[string]time.Time{"vol-1": {}}}, want: []string{"vol-1"}},
		"a detach without an answer": {journal: Journal{Detaching: map[string]time.Time{"vol-1": time.Now()}}, want: []string{"vol-1"}},
		"a process that ended":       {journal: Journal{Held: &Holding{Volume: "vol-1", Slot: "a"}}, want: []string{"vol-1"}},
		"a detach that was refused":  {tags: of("i-1"), want: []string{"vol-1"}},
		"again":                      {tags: of("i-1"), refused: true, want: []string{"vol-1", "vol-1"}},
		"another's":                  {tags: of("i-2")},
		"nobody's":                   {},
		"mounted elsewhere":          {tags: of("i-1"), mounted: "/mnt/master-vol-1"},
		"an old notice":              {tags: of("i-1"), told: 1},
		"a path that never answers":  {tags: of("i-1"), told: 100, want: []string{"vol-1"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.journal.Instance = "i-1"
			m := &machine{journal: c.journal, tags: c.tags, mounted: c.mounted, refused: c.refused}
			host := Host{Memory: m, Disks: m, Devices: m.devices}
			asked := 0
			plans := func(_ context.Context, now Lifecycle) (Lifecycle, error) {
				if asked++; c.told == 0 {
					return Lifecycle{Target: "Terminated"}, nil
				} else if asked <= c.told {
					now.Target = "Terminated"
				}
				return now, errors.New("no answer")
			}
			p := New(Default(), Node{Name: "x", Cluster: "main"}, m, host,
				service{Self{Instance: "i-1", Zone: "z"}, plans}, nil, zap.NewNop())
			for range 3 {
				if _, err := p.Claim(t.Context(), volume.Want{Cluster: "main", Slots: []string{"a"}}); err == nil {
					t.Fatalf("%s: it claimed a volume", name)
				}
			}
			if !slices.Equal(m.detached, c.want) {
				t.Errorf("%s: detached %v, want %v", name, m.detached, c.want)
			}
		})
	}
}

// The journal says what an instance that must go has held. If it cannot be read, the instance says so, besides that it
// is to go.
func TestGoingInstanceCannotReadItsJournal(t *testing.T) {
	m := &machine{gone: true, unread: errors.New("it is damaged")}
	plans := func(context.Context, Lifecycle) (Lifecycle, error) { return Lifecycle{Target: "Terminated"}, nil }
	p := New(Default(), Node{Name: "x", Cluster: "main"}, m, Host{Memory: m, Disks: m, Devices: m.devices},
		service{Self{Instance: "i-1", Zone: "z"}, plans}, nil, zap.NewNop())
	_, err := p.Claim(t.Context(), volume.Want{Cluster: "main", Slots: []string{"a"}})
	if err == nil || errors.Is(err, volume.ErrNoneFree) || !strings.Contains(err.Error(), "it is damaged") {
		t.Errorf("got %v, want what is wrong with the journal", err)
	}
}

// service is the metadata service of an instance. Nothing is planned for it without plans.
type service struct {
	self  Self
	plans func(ctx context.Context, last Lifecycle) (Lifecycle, error)
}

func (m service) Identity(context.Context) (Self, error) { return m.self, nil }

func (m service) Lifecycle(ctx context.Context, last Lifecycle) (Lifecycle, error) {
	if m.plans == nil {
		return Lifecycle{}, nil
	}
	return m.plans(ctx, last)
}

// machine is a machine with its root disk and vol-1, and a cloud that knows them.
type machine struct {
	Cloud
	Disks
	journal  Journal
	tags     map[string]string
	mounted  string
	refused  bool
	gone     bool
	unread   error // why the journal cannot be read
	detached []string
}

func (m *machine) Lock() (func(), error)     { return func() {}, nil }
func (m *machine) Journal() (Journal, error) { return m.journal, m.unread }
func (m *machine) Remember(j Journal) error  { m.journal = j; return nil }

func (m *machine) devices() (map[string]string, error) {
	all := map[string]string{"vol-root": "/dev/nvme0n1"}
	if !m.gone {
		all["vol-1"] = "/dev/nvme1n1"
	}
	return all, nil
}

func (m *machine) Mounted(string) ([]string, error) {
	if m.mounted == "" {
		return nil, nil
	}
	return []string{m.mounted}, nil
}

func (m *machine) Volumes(context.Context, Query) ([]Volume, error) {
	v := Volume{ID: "vol-1", Zone: "z", Tags: m.tags, State: "in-use"}
	if !m.gone {
		v.Attachments = []Attachment{{Instance: "i-1", State: Attached}}
	}
	return []Volume{v}, nil
}

func (m *machine) Detach(_ context.Context, volume, _ string) error {
	m.detached = append(m.detached, volume)
	if m.refused {
		m.refused = false
		return &Error{Op: "DetachVolume", Code: "UnauthorizedOperation", Meaning: Denied}
	}
	m.gone = true
	return nil
}

func (m *machine) Untag(context.Context, string, string, string) error { return nil }

// lookedAt is a cloud that records that someone listed volumes.
type lookedAt struct {
	Cloud
	looked *bool
}

func (c lookedAt) Volumes(context.Context, Query) ([]Volume, error) {
	*c.looked = true
	return nil, nil
}

// forgetful is a Memory that remembers nothing and needs no lock.
type forgetful struct{ Memory }

func (forgetful) Lock() (func(), error)     { return func() {}, nil }
func (forgetful) Journal() (Journal, error) { return Journal{}, nil }
func (forgetful) Remember(Journal) error    { return nil }
