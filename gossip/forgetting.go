package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

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

// forgetOrder has a node forget another.
type forgetOrder struct {
	lastWord
	Dry bool `json:"dry,omitempty"`
}

// forgetAll has all live nodes forget a lost one.
type forgetAll struct {
	self  string
	nodes []Node // live ones, and those lost that are not forgotten
	lost  []Node // also those that time has had forgotten here
	ask   func(ctx context.Context, node string, o forgetOrder) (forgetAnswer, error)
	// witness reads what a lost node was the witness of from what it has published.
	witness func(state []byte) Witness
}

// run asks all live nodes first whether they would, and has none of them forget if one hears the node.
func (f forgetAll) run(ctx context.Context, name string, dry bool) (Forgetting, error) {
	lost, err := f.find(name)
	if err != nil {
		return Forgetting{}, err
	}
	r := Forgetting{Node: name, Since: lost.Since, Dry: dry, Witness: f.witness(lost.State)}
	order := forgetOrder{lastWord: lastWord{Node: name, Boot: lost.Boot, Seq: lost.Seq}, Dry: true}
	rounds := []bool{true, false}
	if dry {
		rounds = rounds[:1]
	}
	for _, order.Dry = range rounds {
		r.Told, r.Untold = []string{}, map[string]string{}
		for _, n := range f.nodes {
			if !n.Live {
				continue
			}
			a, err := f.ask(ctx, n.Node, order)
			if err == nil && a.refused() {
				err = refusal(name, n.Node, a)
				if order.Dry {
					return r, fmt.Errorf("nothing was changed: %w", err)
				}
			}
			if err != nil {
				r.Untold[n.Node] = err.Error()
				continue
			}
			r.Told = append(r.Told, n.Node)
		}
	}
	return r, nil
}

func refusal(name, by string, a forgetAnswer) error {
	if a.Live {
		return fmt.Errorf("node %s hears %s, which is live: stop %s first", by, name, name)
	}
	return fmt.Errorf("node %s has heard more of %s than this one: give the command again in some seconds", by, name)
}

// find returns the lost node with this name, or says why there is none.
func (f forgetAll) find(name string) (Node, error) {
	var names []string
	for _, n := range f.lost {
		if n.Node == name && name != f.self {
			return n, nil
		}
		names = append(names, n.Node)
	}
	known := "no node is lost"
	if len(names) > 0 {
		known = "lost are " + strings.Join(names, ", ")
	}
	switch {
	case name == f.self:
		return Node{}, fmt.Errorf("%s is the node that was asked: stop it, and ask another node to forget it", name)
	case slices.ContainsFunc(f.nodes, func(n Node) bool { return n.Node == name }):
		return Node{}, fmt.Errorf("%s is live: stop it first; a node that runs would be known again at once", name)
	}
	return Node{}, fmt.Errorf("no node %q is known; %s", name, known)
}
