package gossip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func lostNode(name string) Node {
	return Node{Meta: Meta{Node: name, Boot: 7}, Since: time.Unix(1, 0), State: []byte(witness), Seq: 3}
}

func TestForgetAll(t *testing.T) {
	type answers map[string]string
	stray := lostNode("stray")
	live := func(name string) Node { return Node{Meta: Meta{Node: name}, Live: true} }
	nodes := []Node{live("n1"), live("n2"), lostNode("old"), stray}
	for what, c := range map[string]struct {
		node    string
		dry     bool
		answers answers // by node, to the first round
		late    answers // to the second
		broken  string
		orders  int
		told    []string
		err     string
	}{
		"forgotten":      {node: "stray", orders: 4, told: []string{"n1", "n2"}},
		"dry":            {node: "stray", dry: true, orders: 2, told: []string{"n1", "n2"}},
		"forgotten here": {node: "old", orders: 4, told: []string{"n1", "n2"}},
		"unknown":        {node: "starry", err: `no node "starry" is known; lost are old, stray`},
		"live":           {node: "n2", err: "n2 is live: stop it first"},
		"live elsewhere": {node: "stray", answers: answers{"n2": "node n2 hears stray"}, orders: 2, err: "nothing was changed: node n2 hears stray"},
		"later":          {node: "stray", answers: answers{"n2": "node n2 has heard more"}, orders: 2, err: "nothing was changed: node n2 has heard more"},
		"back meanwhile": {node: "stray", late: answers{"n2": "node n2 hears stray"}, orders: 4, told: []string{"n1"}},
		"an old version": {node: "stray", broken: "n2", orders: 4, told: []string{"n1"}},
	} {
		t.Run(what, func(t *testing.T) {
			var asked []forgetOrder
			ask := func(_ context.Context, node string, question []byte) ([]byte, error) {
				var order forgetOrder
				must(t, json.Unmarshal(bytes.TrimPrefix(question, []byte(askToForget)), &order))
				asked = append(asked, order)
				if node == c.broken {
					return nil, errors.New("no answer to the question")
				}
				if order.Dry {
					return []byte(c.answers[node]), nil
				}
				return []byte(c.late[node]), nil
			}
			n, err := findLost(c.node, nodes)
			var r Forgetting
			if err == nil {
				r, err = forgetAll(t.Context(), n, c.dry, nodes, ask)
			}
			if len(asked) != c.orders {
				t.Errorf("orders: got %+v, want %d", asked, c.orders)
			}
			for i, o := range asked {
				if want := (lastWord{Node: c.node, Boot: 7, Seq: 3}); o.lastWord != want || o.Dry != (i < 2) {
					t.Errorf("order %d: got %+v, want %+v", i, o, want)
				}
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || string(r.State) != witness || !slices.Equal(r.Told, c.told) || len(r.Told)+len(r.Untold) != 2 {
				t.Errorf("got %+v, %v, want told %v", r, err, c.told)
			}
		})
	}
}

func TestForgetOurselves(t *testing.T) {
	m := newMesh(t)
	if _, err := m.Forget(t.Context(), m.self.Node, false); err == nil || !strings.Contains(err.Error(), "is the node that was asked") {
		t.Errorf("got %v", err)
	}
}
