package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// forgetKeys makes the leader delete holdfast's own keys of earlier generations. They no longer count, but clients see
// them, and a version that does not know their generation would heed them. They are deleted through raft, not while the
// data is built, so that the members' databases are equal whichever version builds them.
func (s *sentinel) forgetKeys(ctx context.Context) {
	for every(ctx, forgetEvery) {
		o := s.status.get().Observation
		r := o.Disk.Ledger.Record
		if r == nil || !o.Member.Running || !o.Member.Leader || !o.Member.Confirmed {
			continue
		}
		for _, name := range []string{plan.KeySlots, plan.KeyLock, plan.KeyPaused, plan.KeyConsent} {
			if err := s.forgetKey(ctx, name, *r); err != nil && ctx.Err() == nil {
				s.lg.Debug("could not delete a key of an earlier generation", zap.String("key", name), zap.Error(err))
			}
		}
		for _, id := range o.Withdrawn() {
			if err := s.withdraw(ctx, plan.Consent{Record: r.ID, Proposal: id}); err != nil && ctx.Err() == nil {
				s.lg.Warn("could not withdraw the consent to an aborted proposal", zap.String("proposal", id), zap.Error(err))
			}
		}
	}
}

// withdraw withdraws the consent to an aborted proposal through raft, so that it counts on no disk: somebody may delete
// the abort in the store, and not every disk remembers it.
func (s *sentinel) withdraw(ctx context.Context, of plan.Consent) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	value, version, err := s.world.Etcd.Key(plan.KeyConsent)
	var c plan.Consent
	if version != 0 && json.Unmarshal(value, &c) == nil && c.Record == of.Record && c.Proposal == of.Proposal {
		if err = s.world.Etcd.PutKey(ctx, plan.KeyConsent, nil, version); errors.Is(err, plan.ErrConflict) {
			err = nil // it is another one by now
		}
	}
	if err := errors.Join(err, s.world.Etcd.Unmark(ctx, plan.Mark(of.Record, of.Proposal))); err != nil {
		return err
	}
	s.lg.Warn("withdrew the consent to an aborted proposal", zap.String("proposal", of.Proposal))
	s.history.remember(Entry{Kind: "consent", Why: fmt.Sprintf("withdrew the consent to proposal %s, which was aborted",
		of.Proposal), Outcome: Done})
	return nil
}

func (s *sentinel) forgetKey(ctx context.Context, name string, r plan.Record) error {
	value, version, err := s.world.Etcd.Key(name)
	if err != nil || version == 0 || !outlived(name, value, r) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if name == plan.KeyLock { // by its value: a lock's version starts at 1 again each time
		err = s.world.Etcd.Unlock(ctx, value)
	} else {
		err = s.world.Etcd.PutKey(ctx, name, nil, version)
	}
	if errors.Is(err, plan.ErrConflict) {
		return nil // another value is there by now
	} else if err != nil {
		return err
	}
	s.lg.Info("deleted a key of an earlier generation", zap.String("key", name), zap.ByteString("value", value))
	return nil
}

// outlived reports whether a key is of a generation before the one that begins with r, and does not count any more. A
// key that names no generation, or cannot be read, is kept.
func outlived(name string, value []byte, r plan.Record) bool {
	var of struct {
		Record string `json:"record"`
	}
	if json.Unmarshal(value, &of) != nil || of.Record == "" {
		return false
	}
	if name == plan.KeyPaused {
		return !plan.Pause{Record: of.Record}.Holds(&r)
	}
	return of.Record != r.ID
}
