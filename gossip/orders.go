package gossip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Orders are what nodes have each other do about the gossip itself, asked directly: the steps of a rotation of the
// keys, and to forget a lost node.
type Orders struct {
	mesh    *Mesh
	lg      *zap.Logger
	witness func(state []byte) Witness
}

// NewOrders returns the orders of a node to others. witness reads what a node has published.
func NewOrders(mesh *Mesh, witness func(state []byte) Witness, lg *zap.Logger) *Orders {
	return &Orders{mesh: mesh, lg: lg, witness: witness}
}

const (
	// askForKeys begins the question that is an order to a node's gossip keys.
	askForKeys = "gossip-key "
	// askToForget begins the question that is an order to forget a node.
	askToForget = "gossip-forget "
)

// Answer does here what another node orders; ok says whether the question is an order.
func (o *Orders) Answer(question []byte) (answer []byte, ok bool, err error) {
	var does any
	if body, ok := bytes.CutPrefix(question, []byte(askForKeys)); ok {
		does, err = o.obey(body)
	} else if body, ok := bytes.CutPrefix(question, []byte(askToForget)); ok {
		does, err = o.forget(body)
	} else {
		return nil, false, nil
	}
	if err == nil {
		answer, err = json.Marshal(does)
	}
	return answer, true, err
}

// obey does a step of a rotation here.
func (o *Orders) obey(body []byte) (Keys, error) {
	var order KeyOrder
	if err := json.Unmarshal(body, &order); err != nil {
		return Keys{}, fmt.Errorf("read an order to the gossip keys: %w", err)
	}
	keys, err := o.mesh.Ring().Obey(order)
	step, key := zap.String("step", order.Do), zap.String("key", order.Key.Fingerprint)
	switch {
	case order.Do == KeyList || order.Do == KeyCheck:
	case err != nil:
		o.lg.Warn("gossip keys not changed", step, key, zap.Error(err))
	default:
		o.lg.Info("gossip keys changed", step, key)
	}
	return keys, err
}

// forget forgets a node here.
func (o *Orders) forget(body []byte) (a ForgetAnswer, err error) {
	var order forgetOrder
	if err := json.Unmarshal(body, &order); err != nil || order.Node == "" {
		return a, errors.Join(errors.New("read an order to forget a node: it names none"), err)
	}
	a = o.mesh.Forget(order.Forgotten, order.Dry)
	if !order.Dry {
		o.lg.Info("ordered to forget a lost node",
			zap.String("node", order.Node), zap.Bool("live", a.Live), zap.Bool("later", a.Later))
	}
	return a, nil
}

// send has a node carry out an order.
func send[Answer any](ctx context.Context, m *Mesh, node, question string, order any) (a Answer, err error) {
	body, err := json.Marshal(order)
	if err != nil {
		return a, err
	}
	data, err := m.Ask(ctx, node, append([]byte(question), body...))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("read the answer of %s: %w", node, err)
	}
	return a, nil
}

// step has a node do a step of a rotation.
func (o *Orders) step(ctx context.Context, node string, order KeyOrder) (Keys, error) {
	return send[Keys](ctx, o.mesh, node, askForKeys, order)
}

// Forget has all live nodes forget a lost one, after all of them have said that they would. None forgets it if one
// hears it.
func (o *Orders) Forget(ctx context.Context, name string, dry bool) (Forgetting, error) {
	f := forgetAll{self: o.mesh.self.Node, nodes: o.mesh.Nodes(), lost: o.mesh.Lost(), witness: o.witness,
		ask: func(ctx context.Context, node string, order forgetOrder) (ForgetAnswer, error) {
			return send[ForgetAnswer](ctx, o.mesh, node, askToForget, order)
		}}
	return f.run(ctx, name, dry)
}

// Rotation is a rotation of the keys of all nodes; force continues without those that are not live.
func (o *Orders) Rotation(force bool) Rotation {
	return Rotation{Self: o.mesh.self.Node, Ring: o.mesh.Ring(), Ask: o.step, Force: force,
		Nodes: func() (live, lost []string) {
			for _, m := range o.mesh.Nodes() {
				if m.Live {
					live = append(live, m.Node)
				} else {
					lost = append(lost, m.Node)
				}
			}
			return live, lost
		}}
}

// NodeKeys are the keys of one node, as far as it tells.
type NodeKeys struct {
	Node string `json:"node"`
	Live bool   `json:"live"`
	Keys
	Problem string `json:"problem,omitempty"`
}

// Keys asks every live node for its keys.
func (o *Orders) Keys(ctx context.Context) []NodeKeys {
	var all []NodeKeys
	for _, m := range o.mesh.Nodes() {
		k := NodeKeys{Node: m.Node, Live: m.Live}
		if m.Live {
			bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
			keys, err := o.step(bounded, m.Node, KeyOrder{Do: KeyList})
			cancel()
			if k.Keys = keys; err != nil {
				k.Problem = err.Error()
			}
		} else {
			k.Problem = "not live since " + m.Since.Format(time.RFC3339)
		}
		all = append(all, k)
	}
	return all
}

const (
	// RotationTime bounds a rotation: an answer of a node takes at most 10 s.
	RotationTime = 2 * time.Minute
	// followInterval is how often the leader looks whether all nodes have a key of the newest authority.
	followInterval = 15 * time.Second
)

// FollowAuthority has the cluster use the gossip key of a new peers' authority, until ctx ends. Each node installs it
// when it knows the authority; when all live ones have, the node that leads brings them to use it. A node that is away
// finds it by itself.
func (o *Orders) FollowAuthority(ctx context.Context, leads func() bool) error {
	if o.mesh.Ring().Keys().Origin != KeysDerived {
		return nil
	}
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		own := o.mesh.Ring().Keys()
		if !leads() || len(own.Secrets) == 0 || own.Primary().Secret == own.Secrets[0] {
			continue
		}
		rot := o.Rotation(true)
		bounded, cancel := context.WithTimeout(ctx, RotationTime)
		p, err := rot.Plan(bounded)
		if err == nil && p.Unfinished {
			err = rot.Run(bounded, p)
		}
		cancel()
		if err != nil {
			o.lg.Warn("gossip does not use the key of the new authority yet", zap.Error(err))
			continue
		}
		o.lg.Info("gossip uses the key of the new authority", zap.String("key", p.Key.Fingerprint))
	}
}
