package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// askToConsent begins a question that asks a member with a leader to commit a consent; the consent follows.
const askToConsent = "consent "

// ErrUnled is wrapped by Confirm if no member can commit a consent.
var ErrUnled = errors.New("no member that has a leader answers")

// Confirm makes the cluster consent to the open proposal with this ID (R16). An operator must order it on a node of the
// cluster. The consent is committed to the keyspace. If an alarm refuses writes, it is committed as a mark, which is an
// alarm itself.
func (c *Coordinator) Confirm(ctx context.Context, id, by string) (plan.Restore, error) {
	began := time.Now()
	c.generations.stored(c.generations.read(ctx), began)
	o, _ := c.observer.observe()
	p, mine := o.Store.Restore, o.Disk.Ledger.Record
	switch {
	case o.Store.Unknown != "":
		return plan.Restore{}, fmt.Errorf("the backup store does not answer here: %s", o.Store.Unknown)
	case p == nil:
		return plan.Restore{}, errors.New("no restore is proposed: see `holdfast status`")
	case id != "" && p.ID != id:
		return *p, fmt.Errorf("the open proposal is %s, the %s by %s, and not %s", p.ID, p.Title(), p.By, id)
	case p.Led == nil:
		return *p, errors.New("the proposal says that the cluster has no leader: no one can consent to it; a leader aborts " +
			"it, and without one it is carried out")
	}
	word := plan.Consent{Record: p.Parent(), Proposal: p.ID, By: by}
	if mine != nil && mine.ID == p.Parent() && o.Member.Led() {
		return *p, c.sentinel.consent(ctx, word)
	}
	data, err := json.Marshal(word)
	if err != nil {
		return *p, err
	}
	for _, peer := range o.Peers {
		if f := peer.Facts; peer.Live && f != nil && f.Confirmed && f.Record != nil && f.Record.ID == p.Parent() {
			ctx, cancel := context.WithTimeout(ctx, raftTimeout)
			defer cancel()
			_, err := c.world.Mesh.Ask(ctx, peer.Node, append([]byte(askToConsent), data...))
			return *p, err
		}
	}
	return *p, fmt.Errorf("%w; see `holdfast status`", ErrUnled)
}

// consent commits a consent to the end of this member's generation.
func (s *sentinel) consent(ctx context.Context, word plan.Consent) error {
	o, _ := s.observer.observe()
	if r := o.Disk.Ledger.Record; r == nil || r.ID != word.Record || !o.Member.Running {
		return fmt.Errorf("node %s runs no member of the generation that would end", s.cfg.Node)
	}
	if slices.Contains(o.Disk.Ledger.Aborted, word.Proposal) {
		return fmt.Errorf("the proposal %s was aborted, as the disk of node %s remembers: propose it again; and find out "+
			"who has deleted the abort in the backup store", word.Proposal, s.cfg.Node)
	}
	data, err := json.Marshal(word)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	_, version, err := s.world.Etcd.Key(plan.KeyConsent)
	if err == nil {
		err = s.world.Etcd.PutKey(ctx, plan.KeyConsent, data, version)
	}
	if errors.Is(err, plan.ErrReadOnly) {
		err = s.world.Etcd.Mark(ctx, plan.Mark(word.Record, word.Proposal))
	}
	if err != nil {
		return fmt.Errorf("commit the consent: %w", err)
	}
	s.lg.Warn("consented to the end of this generation", zap.String("proposal", word.Proposal),
		zap.String("confirmed by", word.By))
	s.history.remember(Entry{Kind: "consent", Why: fmt.Sprintf("%s confirmed proposal %s", word.By, word.Proposal),
		Outcome: Done})
	s.look()
	return nil
}

// answer commits a consent that an operator has confirmed on another node.
func (s *sentinel) answer(ctx context.Context, data []byte) ([]byte, error) {
	var word plan.Consent
	if err := json.Unmarshal(data, &word); err != nil {
		return nil, fmt.Errorf("decode a consent: %w", err)
	}
	began := time.Now()
	s.generations.stored(s.generations.read(ctx), began)
	o, _ := s.observer.observe()
	if p := o.Store.Restore; p == nil || p.ID != word.Proposal || p.Led == nil || p.Parent() != word.Record {
		return nil, fmt.Errorf("node %s finds no such open proposal in its backup store: %s", s.cfg.Node, word.Proposal)
	}
	return nil, s.consent(ctx, word)
}
