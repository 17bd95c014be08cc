package proposal

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// hanging is a store that answers no request of some kinds before its context ends.
type hanging struct {
	snapshot.Store
	gets, lists, puts bool
}

func (h hanging) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if h.gets {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return h.Store.Get(ctx, name)
}

func (h hanging) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if h.lists {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return h.Store.List(ctx, prefix)
}

func (h hanging) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if h.puts {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return h.Store.PutIfAbsent(ctx, name, data)
}

// A command ends soon if the store does not answer, whatever it asks for, and says so.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r, founding := shelved(t)
		p := proposed(founding, 0)
		operator := func(s snapshot.Store) Operator {
			o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: s}, Terminal: Terminal{Err: io.Discard}}
			o.Config.Cluster.Name = "main"
			return o
		}
		for name, do := range map[string]func() error{
			"restore": func() error {
				return operator(hanging{Store: r.Store, gets: true}).Restore(t.Context(), backups.Latest)
			},
			"confirm": func() error { return operator(hanging{Store: r.Store, lists: true}).Confirm(t.Context(), "") },
			"abort":   func() error { return operator(hanging{Store: r.Store, puts: true}).Abort(t.Context()) },
			"beacon":  func() error { return operator(hanging{Store: r.Store, lists: true}).MayGiveUp(t.Context()) },
			"propose": func() error {
				return proposal{p, operator(hanging{Store: r.Store, puts: true}).cluster()}.propose(t.Context())
			},
			"withdraw": func() error {
				return proposal{p, operator(hanging{Store: r.Store, puts: true}).cluster()}.withdraw(t.Context(), errors.New("no"))
			},
		} {
			begin := time.Now()
			err := do()
			took := time.Since(begin)
			if err == nil || !strings.Contains(err.Error(), "no answer within 30s") || took > time.Minute {
				t.Errorf("%s: after %s, %v", name, took, err)
			}
		}
		f := newFollower(proposal{p, operator(hanging{Store: r.Store, lists: true}).cluster()}, view{})
		f.record = &plan.Record{}
		begin := time.Now()
		if _, err := f.look(t.Context()); err != nil {
			t.Errorf("look: %v", err)
		}
		if _, err := f.lookForBeacon(t.Context()); err != nil {
			t.Errorf("look for the beacon: %v", err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("two looks took %s", took)
		}
	})
}
