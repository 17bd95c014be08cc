package proposal

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// consenting answers POST /consent with an error, nil for none, and notes what was confirmed.
func consenting(confirmed *[]string, refusal error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		*confirmed = append(*confirmed, r.FormValue("proposal")+" by "+r.FormValue("by"))
		control.Reply(w, plan.Restore{}, refusal)
	})
	return mux
}

// A proposal to a living cluster is confirmed at once where a node answers, waits where none does, and is withdrawn
// where the cluster does not consent. To one without a leader nobody consents.
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
			o, founding, said := restoring(t, node)
			p := proposed(founding, 0)
			p.Led = tc.led
			err := proposal{p, o.cluster()}.propose(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(said.String(), tc.says) || !strings.Contains(said.String(), p.ID) {
				t.Errorf("said %q", said)
			}
			if (len(asked) > 0) != tc.asked || tc.asked && asked[0] != p.ID+" by "+o.Name {
				t.Errorf("asked for %q", asked)
			}
			s := knownTo(t, o.cluster().records)
			if (s.Restore != nil) != tc.open || len(s.Aborted) > 0 == tc.open {
				t.Errorf("left %+v, aborted %+v", s.Restore, s.Aborted)
			}
			if !tc.open {
				return
			}
			if err := (proposal{proposed(founding, 0), o.cluster()}).propose(t.Context()); err == nil ||
				!errors.Is(err, plan.ErrConflict) {
				t.Errorf("a second one: got %v", err)
			}
			if s := knownTo(t, o.cluster().records); s.Restore == nil || s.Restore.ID != p.ID {
				t.Errorf("the first one is gone: %+v", s)
			}
		})
	}
}

// What cannot be withdrawn is said, with the reason for it.
func TestWithdrawFails(t *testing.T) {
	var asked []string
	o, founding, _ := restoring(t, consenting(&asked, errors.New("no space")))
	o.Backups.Store = &putsOnce{Store: o.Backups.Store}
	p := proposed(founding, 0)
	p.Led = &shining.Stand
	err := proposal{p, o.cluster()}.propose(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no space") || !strings.Contains(err.Error(), "could not be withdrawn: the store is full") || strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
}

// A proposal whose consent was given, and the answer to that lost, may be concluded by then. Then it is not withdrawn.
func TestWithdrawTooLate(t *testing.T) {
	o, founding, _ := restoring(t, nil)
	p := proposed(founding, 0)
	c := o.cluster()
	record := concludedOf(p, founding)
	must(t, errors.Join(c.records.Propose(t.Context(), p), c.records.Conclude(t.Context(), record)))
	err := proposal{p, c}.withdraw(t.Context(), errors.New("no answer"))
	if err == nil || !strings.Contains(err.Error(), "no answer; too late: ") ||
		strings.Contains(err.Error(), "nothing was changed") {
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
		flags   Options
		silent  bool // no node answers
		refusal error
		asked   bool
		want    string // of the error, empty: none
	}{
		"none is open":          {none: true, want: "no restore of cluster main is proposed; the store knows it as main@1-"},
		"another one":           {led: led, id: "other", flags: Options{Yes: true}, want: "and not other; nothing was changed"},
		"leaderless":            {flags: Options{Yes: true}, want: "says that the cluster has no leader"},
		"no node answers":       {led: led, flags: Options{Yes: true}, silent: true, want: "confirm it on a node of the cluster"},
		"what would happen":     {led: led, flags: Options{DryRun: true, Yes: true}},
		"nobody says yes":       {led: led, want: "say --yes"},
		"the leader is gone":    {led: led, flags: Options{Yes: true}, refusal: coordinator.ErrUnled, asked: true, want: "no member that has a leader answers; the proposal is still open"},
		"confirmed":             {led: led, flags: Options{Yes: true}, asked: true},
		"confirmed by its name": {led: led, id: "its own", flags: Options{Yes: true}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var o Operator
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
					if err := o.cluster().records.Conclude(q.Context(), born); err != nil {
						t.Error(err)
					}
					s.Record, s.Health = &born, health.Healthy
				}
				control.Reply(w, p, tc.refusal)
			})
			if tc.silent {
				o, founding, said = restoring(t, nil)
			} else {
				o, founding, said = restoring(t, mux)
			}
			p = proposed(founding, 0)
			p.Led, p.By = tc.led, "someone"
			if !tc.none {
				must(t, o.cluster().records.Propose(t.Context(), p))
			}
			if tc.id == "its own" {
				tc.id = p.ID
			}
			tc.flags.Timeout = time.Minute
			o.Options = tc.flags
			err := o.Confirm(t.Context(), tc.id)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if (len(asked) > 0) != tc.asked || tc.asked && asked[0] != p.ID {
				t.Errorf("confirmed %q", asked)
			}
			if tc.asked || tc.flags.DryRun {
				if !strings.Contains(said.String(), "by someone, who was shown that node n2 (slot b) at 10.0.0.2, revision 42 leads") {
					t.Errorf("said %q", said)
				}
			}
			if got := knownTo(t, o.cluster().records); !tc.none && !(tc.asked && tc.want == "") && got.Restore == nil {
				t.Errorf("it is not open any more: %+v", got)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
