package gossip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// Orders are what nodes ask each other to do about the gossip itself: to forget a lost node.
type Orders struct {
	mesh    *Mesh
	lg      *zap.Logger
	witness func(state []byte) Witness
}

// NewOrders returns the orders of a node to others. witness reads what a node has published.
func NewOrders(mesh *Mesh, witness func(state []byte) Witness, lg *zap.Logger) *Orders {
	return &Orders{mesh: mesh, lg: lg, witness: witness}
}

// askToForget begins the question that is an order to forget a node.
const askToForget = "gossip-forget "

// Answer carries out what another node orders; ok says whether the question is an order.
func (o *Orders) Answer(question []byte) (answer []byte, ok bool, err error) {
	body, ok := bytes.CutPrefix(question, []byte(askToForget))
	if !ok {
		return nil, false, nil
	}
	does, err := o.forget(body)
	if err == nil {
		answer, err = json.Marshal(does)
	}
	return answer, true, err
}

// forget forgets a node here.
func (o *Orders) forget(body []byte) (a forgetAnswer, err error) {
	var order forgetOrder
	if err := json.Unmarshal(body, &order); err != nil || order.Node == "" {
		return a, errors.Join(errors.New("read an order to forget a node: it names none"), err)
	}
	a = o.mesh.forget(order.lastWord, order.Dry)
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

// Forget makes all live nodes forget a lost one, after all of them have said that they would. If one of them hears it,
// none does.
func (o *Orders) Forget(ctx context.Context, name string, dry bool) (Forgetting, error) {
	f := forgetAll{self: o.mesh.self.Node, nodes: o.mesh.Nodes(), lost: o.mesh.Lost(), witness: o.witness,
		ask: func(ctx context.Context, node string, order forgetOrder) (forgetAnswer, error) {
			return send[forgetAnswer](ctx, o.mesh, node, askToForget, order)
		}}
	return f.run(ctx, name, dry)
}
