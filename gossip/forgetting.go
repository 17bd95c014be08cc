package gossip

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Orders are what nodes ask each other to do about the gossip itself: to forget a lost node.
type Orders struct {
	mesh    *Mesh
	lg      *zap.Logger
	witness func(state []byte) Witness
	ask     func(ctx context.Context, node string, question []byte) ([]byte, error)
}

// NewOrders returns the orders of a node to others. witness reads what a node has published.
func NewOrders(mesh *Mesh, witness func(state []byte) Witness, lg *zap.Logger) *Orders {
	return &Orders{mesh: mesh, lg: lg, witness: witness, ask: mesh.Ask}
}

// Forgetting is what came of an order to all live nodes to forget a lost one.
type Forgetting struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // lost, as the asked node knows
	Dry   bool      `json:"dry,omitempty"`
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

// Answer carries out what another node orders; ok says whether the question is an order.
func (o *Orders) Answer(question []byte) (answer []byte, ok bool, err error) {
	body, ok := bytes.CutPrefix(question, []byte(askToForget))
	if !ok {
		return nil, false, nil
	}
	var order forgetOrder
	if err := json.Unmarshal(body, &order); err != nil || order.Node == "" {
		return nil, true, errors.Join(errors.New("read an order to forget a node: it names none"), err)
	}
	a := o.mesh.forget(order.lastWord, order.Dry)
	if !order.Dry {
		o.lg.Info("ordered to forget a lost node",
			zap.String("node", order.Node), zap.Bool("live", a.Live), zap.Bool("later", a.Later))
	}
	answer, err = json.Marshal(a)
	return answer, true, err
}

// Forget makes all live nodes forget a lost one, after all of them were asked whether they would. If one of them hears
// it, none does.
func (o *Orders) Forget(ctx context.Context, name string, dry bool) (Forgetting, error) {
	return o.forget(ctx, name, dry, o.mesh.Nodes(), o.mesh.Lost())
}

// forget is told the nodes that are not forgotten, and those that are lost, forgotten by time or not.
func (o *Orders) forget(ctx context.Context, name string, dry bool, nodes, lost []Node) (Forgetting, error) {
	n, err := o.find(name, nodes, lost)
	if err != nil {
		return Forgetting{}, err
	}
	r := Forgetting{Node: name, Since: n.Since, Dry: dry, Witness: o.witness(n.State)}
	word := lastWord{Node: name, Boot: n.Boot, Seq: n.Seq}
	if err := o.tell(ctx, forgetOrder{word, true}, nodes, &r); err != nil {
		return r, fmt.Errorf("nothing was changed: %w", err)
	}
	if !dry {
		_ = o.tell(ctx, forgetOrder{word, false}, nodes, &r) // who refuses is among the untold
	}
	return r, nil
}

// tell gives all live nodes an order, and returns the first refusal.
func (o *Orders) tell(ctx context.Context, order forgetOrder, nodes []Node, r *Forgetting) (refused error) {
	question, err := json.Marshal(order)
	if err != nil {
		return err
	}
	question = append([]byte(askToForget), question...)
	r.Told, r.Untold = []string{}, map[string]string{}
	for _, n := range nodes {
		if !n.Live {
			continue
		}
		var a forgetAnswer
		data, err := o.ask(ctx, n.Node, question)
		if err == nil {
			err = json.Unmarshal(data, &a)
		}
		refusal := a.refusal(order.Node, n.Node)
		if err = cmp.Or(err, refusal); err != nil {
			r.Untold[n.Node] = err.Error()
		} else {
			r.Told = append(r.Told, n.Node)
		}
		refused = cmp.Or(refused, refusal)
	}
	return refused
}

func (a forgetAnswer) refusal(name, by string) error {
	switch {
	case a.Live:
		return fmt.Errorf("node %s hears %s, which is live: stop %s first", by, name, name)
	case a.Later:
		return fmt.Errorf("node %s has heard more of %s than this one: give the command again in some seconds", by, name)
	}
	return nil
}

// find returns the lost node with this name, or says why there is none.
func (o *Orders) find(name string, nodes, lost []Node) (Node, error) {
	named := func(n Node) bool { return n.Node == name }
	if name == o.mesh.self.Node {
		return Node{}, fmt.Errorf("%s is the node that was asked: stop it, and ask another node to forget it", name)
	}
	if i := slices.IndexFunc(lost, named); i >= 0 {
		return lost[i], nil
	}
	if slices.ContainsFunc(nodes, named) {
		return Node{}, fmt.Errorf("%s is live: stop it first; a node that runs would be known again at once", name)
	}
	known := "no node is lost"
	if len(lost) > 0 {
		var names []string
		for _, n := range lost {
			names = append(names, n.Node)
		}
		known = "lost are " + strings.Join(names, ", ")
	}
	return Node{}, fmt.Errorf("no node %q is known; %s", name, known)
}
