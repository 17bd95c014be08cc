package proposal

import (
	"bytes"
	"context"
	"errors"
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
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

type given pki.Authorities

func (g given) Authorities(context.Context) (pki.Authorities, error) { return pki.Authorities(g), nil }

// Nothing that somebody has put into the store unsigned becomes a command's word: it names the object.
func TestCommandsHeedWhatIsForged(t *testing.T) {
	for name, tc := range map[string]struct {
		forge func(ctx context.Context, thief *generations.Records, p plan.Restore, founding plan.Record) error
		do    func(ctx context.Context, o Operator, p plan.Restore) error
		want  string // of the error
		says  string
	}{
		"a proposal, beside a restore": {
			func(ctx context.Context, thief *generations.Records, p plan.Restore, _ plan.Record) error {
				return thief.Propose(ctx, p)
			},
			func(ctx context.Context, o Operator, _ plan.Restore) error { return o.Restore(ctx, "b") },
			"restore-000002-01.json: it is not signed", ""},
		"a proposal, and it is aborted": {
			func(ctx context.Context, thief *generations.Records, p plan.Restore, _ plan.Record) error {
				return thief.Propose(ctx, p)
			},
			func(ctx context.Context, o Operator, _ plan.Restore) error { return o.Abort(ctx) },
			"", ""},
		"the abort of what is followed": {
			func(ctx context.Context, thief *generations.Records, p plan.Restore, _ plan.Record) error {
				_, err := thief.Abort(ctx, p, plan.Abort{ID: p.ID, Why: "no"})
				return err
			},
			func(ctx context.Context, o Operator, p plan.Restore) error {
				return newFollower(proposal{p, o.cluster()}, view{}).follow(ctx)
			},
			"could not be aborted", "outcome-000002-01.json: it is not signed"},
		"the conclusion of what is followed": {
			func(ctx context.Context, thief *generations.Records, p plan.Restore, founding plan.Record) error {
				return thief.Conclude(ctx, concludedOf(p, founding))
			},
			func(ctx context.Context, o Operator, p plan.Restore) error {
				return newFollower(proposal{p, o.cluster()}, view{}).follow(ctx)
			},
			"could not be aborted", "outcome-000002-01.json: it is not signed"},
		"the abort of what is to be aborted": {
			func(ctx context.Context, thief *generations.Records, p plan.Restore, _ plan.Record) error {
				_, err := thief.Abort(ctx, p, plan.Abort{ID: p.ID, Why: "no"})
				return err
			},
			func(ctx context.Context, o Operator, _ plan.Restore) error { return o.Abort(ctx) },
			"outcome-000002-01.json: it is not signed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, thief, founding := shelved(t)
				a, err := pki.NewAuthority("peers", time.Hour)
				must(t, err)
				signer := pki.SourceOrders(given{Peers: a}, pki.Names{}, "")
				p := proposed(founding, 0)
				if !strings.HasPrefix(name, "a proposal") {
					err = generations.New(thief.Store, "main", signer).Propose(t.Context(), p)
				}
				must(t, errors.Join(err, tc.forge(t.Context(), thief, p, founding)))
				var out, errs bytes.Buffer
				o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: thief.Store}, Node: control.Local(t.TempDir() + "/none"),
					Signer: signer, Options: Options{Timeout: 10 * time.Second, Yes: true}, Terminal: Terminal{Out: &out, Err: &errs}}
				o.Config.Cluster.Name = "main"
				err = tc.do(t.Context(), o, p)
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if strings.Count(errs.String(), tc.says) == 0 || strings.Contains(errs.String(), "point of no return is passed") {
					t.Errorf("said %q, want %q", errs.String(), tc.says)
				}
			})
		})
	}
}

// A generation that the store has unsigned does not count where a node here knows only the one before.
func TestDoubts(t *testing.T) {
	r := plan.Record{Generation: 1}
	s := plan.Store{Unproven: 2, Doubt: "record-000002.json: it is not signed"}
	if err := (view{&health.ClusterStatus{Record: &r}}).doubts(s); !errors.Is(err, coordinator.ErrUnread) {
		t.Errorf("got %v", err)
	}
	r.Generation = 2
	if err := errors.Join((view{&health.ClusterStatus{Record: &r}}).doubts(s), view{}.doubts(s)); err != nil {
		t.Error(err)
	}
}
