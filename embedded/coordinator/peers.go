package coordinator

import (
	"context"
	"fmt"

	"holdfast/embedded/plan"
)

const (
	// askForFacts asks a node for its facts.
	askForFacts = "facts"
	// askWhoAnswers asks a leader for its facts, in which only members that have just answered it count as connected.
	askWhoAnswers = "who answers"
)

// peers asks other nodes directly, because the gossip may be out of date.
type peers struct{ mesh Mesh }

func (ps peers) ask(ctx context.Context, node string, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return ps.mesh.Ask(ctx, node, question)
}

func (ps peers) facts(ctx context.Context, node string) (f plan.Facts, err error) {
	return ps.tell(ctx, node, askForFacts)
}

func (ps peers) tell(ctx context.Context, node, question string) (f plan.Facts, err error) {
	data, err := ps.ask(ctx, node, []byte(question))
	if err != nil {
		return f, err
	}
	told, err := ReadFacts(data)
	if err != nil {
		return f, fmt.Errorf("facts of node %s: %w", node, err)
	}
	return *told, nil
}

// anyLed returns a node whose member says right now that it has a leader, in the generation of a record; "" for none.
func (ps peers) anyLed(ctx context.Context, o plan.Observation, record string) string {
	for _, node := range ps.running(o) {
		f, err := ps.facts(ctx, node)
		if err == nil && f.Running && (f.Leader || f.Confirmed) && f.Record != nil && f.Record.ID == record {
			return node
		}
	}
	return ""
}

// running are the live nodes that say they run a member. The leader comes first, because a node that hangs may use up
// all the time. Processes that another one with the same name hides come last: the gossip does not say which of them
// serves, so each is asked.
func (ps peers) running(o plan.Observation) (nodes []string) {
	for _, leads := range []bool{true, false} {
		for _, p := range o.Peers {
			if f := p.Facts; p.Live && f != nil && f.Running && f.Leader == leads {
				nodes = append(nodes, p.Node)
			}
		}
	}
	return append(nodes, ps.mesh.Twins()...)
}

// others asks every other member directly, and returns nil if all confirm what is wanted.
func (ps peers) others(ctx context.Context, o plan.Observation, wanted func(plan.Facts) bool) error {
	for _, m := range o.Member.Members {
		if m.ID == o.Member.ID {
			continue
		}
		if err := ps.confirms(ctx, o, m, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (ps peers) confirms(ctx context.Context, o plan.Observation, m plan.MemberInfo,
	wanted func(plan.Facts) bool) error {
	for _, p := range o.Peers {
		if p.Facts == nil || !p.Live || p.Facts.Member != m.ID {
			continue
		}
		f, err := ps.facts(ctx, p.Node)
		switch {
		case err != nil:
			return fmt.Errorf("ask slot %s about its member: %w", m.Slot, err)
		case !f.Running || f.Member != m.ID || !wanted(f):
			return errNotYet
		}
		return nil
	}
	return errNotYet
}
