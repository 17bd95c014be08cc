package gossip

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Forgetting is what came of an order to all live nodes to forget a lost one.
type Forgetting struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // lost, as the asked node knows
	Dry   bool      `json:"dry,omitempty"`
	State []byte    `json:"-"` // what it published last, of which the caller fills in the rest
	Witness
	// Told are the nodes that have forgotten it, or with Dry would; Untold those that did not confirm, and why.
	Told   []string          `json:"told"`
	Untold map[string]string `json:"untold,omitempty"`
}

// Witness is what a lost node was the witness of.
type Witness struct {
	Slot   string `json:"slot,omitempty"`
	Disk   string `json:"disk,omitempty"`
	Record string `json:"record,omitempty"` // a token
}

// askToForget begins the question that is an order to forget a node.
const askToForget = "gossip-forget "

// forgetOrder has a node forget another.
type forgetOrder struct {
	lastWord
	Dry bool `json:"dry,omitempty"`
}

// ordered carries out what another node orders; ok says whether the question is an order. The answer says why it is
// refused, and is empty if it is not.
func (m *Mesh) ordered(question []byte) (answer []byte, ok bool, err error) {
	body, ok := bytes.CutPrefix(question, []byte(askToForget))
	if !ok {
		return nil, false, nil
	}
	var order forgetOrder
	if err := json.Unmarshal(body, &order); err != nil || order.Node == "" {
		return nil, true, errors.Join(errors.New("read an order to forget a node: it names none"), err)
	}
	refusal := m.forget(order.lastWord, order.Dry)
	if !order.Dry {
		m.lg.Info("ordered to forget a lost node", zap.String("node", order.Node), zap.NamedError("refused", refusal))
	}
	if refusal != nil {
		answer = []byte(refusal.Error())
	}
	return answer, true, nil
}

// Forget makes all live nodes forget a lost one, after all of them were asked whether they would. If one of them hears
// it, none does.
func (m *Mesh) Forget(ctx context.Context, name string, dry bool) (Forgetting, error) {
	if name == m.self.Node {
		return Forgetting{}, fmt.Errorf("%s is the node that was asked: stop it, and ask another node to forget it", name)
	}
	nodes := m.remembered()
	n, err := findLost(name, nodes)
	if err != nil {
		return Forgetting{}, err
	}
	return forgetAll(ctx, n, dry, nodes, m.Ask)
}

// forgetAll gives the orders to all live nodes.
func forgetAll(ctx context.Context, n Node, dry bool, nodes []Node,
	ask func(ctx context.Context, node string, question []byte) ([]byte, error)) (Forgetting, error) {
	r := Forgetting{Node: n.Node, Since: n.Since, Dry: dry, State: n.State}
	// tell returns the first refusal.
	tell := func(dry bool) (refused error) {
		order, err := json.Marshal(forgetOrder{lastWord{Node: n.Node, Boot: n.Boot, Seq: n.Seq}, dry})
		if err != nil {
			return err
		}
		r.Told, r.Untold = []string{}, map[string]string{}
		for _, to := range nodes {
			if !to.Live {
				continue
			}
			refusal, err := ask(ctx, to.Node, append([]byte(askToForget), order...))
			switch {
			case err != nil:
				r.Untold[to.Node] = err.Error()
			case len(refusal) > 0:
				r.Untold[to.Node] = string(refusal)
				refused = cmp.Or(refused, errors.New(string(refusal)))
			default:
				r.Told = append(r.Told, to.Node)
			}
		}
		return refused
	}
	if err := tell(true); err != nil {
		return r, fmt.Errorf("nothing was changed: %w", err)
	}
	if !dry {
		_ = tell(false) // who refuses is among the untold
	}
	return r, nil
}

// findLost returns the lost node with this name, forgotten by time or not, or says why there is none.
func findLost(name string, nodes []Node) (Node, error) {
	var lost []string
	for _, n := range nodes {
		switch {
		case n.Node == name && n.Live:
			return Node{}, fmt.Errorf("%s is live: stop it first; a node that runs would be known again at once", name)
		case n.Node == name:
			return n, nil
		case !n.Live:
			lost = append(lost, n.Node)
		}
	}
	known := "no node is lost"
	if len(lost) > 0 {
		known = "lost are " + strings.Join(lost, ", ")
	}
	return Node{}, fmt.Errorf("no node %q is known; %s", name, known)
}
