package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/gossip"
)

// keysFile is the file in tls.dir that holds the derived gossip keys.
const keysFile = "gossip-keys.json"

func keysPath(cfg config.Config) string { return filepath.Join(cfg.TLS.Dir, keysFile) }

// derivedRing returns the ring of derived gossip keys where the configuration means one, and nil otherwise. secrets gives
// what they are derived from.
func derivedRing(cfg config.Config, secrets func() [][]byte) (*gossip.Ring, error) {
	if cfg.Gossip.KeyFile != "" || !cfg.TLS.Issues() {
		return nil, nil
	}
	if err := os.MkdirAll(cfg.TLS.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make tls.dir: %w", err)
	}
	return gossip.DerivedRing(keysPath(cfg), secrets), nil
}

// askForKeys begins the question that is an order to a node's gossip keys.
const askForKeys = "gossip-key "

// answerKeys does a step of a rotation here.
func (n *process) answerKeys(question []byte) (answer []byte, ok bool, err error) {
	body, ok := bytes.CutPrefix(question, []byte(askForKeys))
	if !ok {
		return nil, false, nil
	}
	var o gossip.KeyOrder
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, true, fmt.Errorf("read an order to the gossip keys: %w", err)
	}
	keys, err := n.mesh.Ring().Obey(o)
	switch {
	case o.Do == gossip.KeyList || o.Do == gossip.KeyCheck:
	case err != nil:
		n.lg.Warn("gossip keys not changed", zap.String("step", o.Do), zap.String("key", o.Key.Fingerprint), zap.Error(err))
	default:
		n.lg.Info("gossip keys changed", zap.String("step", o.Do), zap.String("key", o.Key.Fingerprint))
	}
	if err != nil {
		return nil, true, err
	}
	answer, err = json.Marshal(keys)
	return answer, true, err
}

// orderKeys has a node do a step of a rotation.
func (n *process) orderKeys(ctx context.Context, node string, o gossip.KeyOrder) (k gossip.Keys, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return k, err
	}
	data, err := n.mesh.Ask(ctx, node, append([]byte(askForKeys), body...))
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(data, &k); err != nil {
		return k, fmt.Errorf("read the answer of %s: %w", node, err)
	}
	return k, nil
}

// rotation is the answer to POST /gossip/rotate.
type rotation struct {
	gossip.RotationPlan
	Observers []string `json:"observers,omitempty"`
}

func (n *process) rotation(force bool) gossip.Rotation {
	return gossip.Rotation{Self: n.cfg.Node.Name, Ring: n.mesh.Ring(), Ask: n.orderKeys, Force: force,
		Nodes: func() (live, lost []string) {
			for _, m := range n.mesh.Nodes() {
				if m.Live {
					live = append(live, m.Node)
				} else {
					lost = append(lost, m.Node)
				}
			}
			return live, lost
		}}
}

// rotationTime bounds a rotation: an answer of a node takes at most 10 s.
const rotationTime = 2 * time.Minute

func (n *process) controlGossipRotate(w http.ResponseWriter, r *http.Request) {
	// Whoever has asked may go away: what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), rotationTime)
	defer cancel()
	rot := n.rotation(r.FormValue("force") == "true")
	p, err := rot.Plan(ctx)
	if err == nil {
		err = rot.Permit(p)
	}
	if err == nil && !control.Dry(r) {
		err = rot.Run(ctx, p)
	}
	answer := rotation{RotationPlan: p}
	for _, o := range n.mesh.Observers() {
		answer.Observers = append(answer.Observers, o.Node)
	}
	control.Reply(w, answer, err)
}

// nodeKeys are the keys of one node, as far as it tells.
type nodeKeys struct {
	Node string `json:"node"`
	Live bool   `json:"live"`
	gossip.Keys
	Problem string `json:"problem,omitempty"`
}

func (n *process) controlGossipKeys(w http.ResponseWriter, r *http.Request) {
	var all []nodeKeys
	for _, m := range n.mesh.Nodes() {
		k := nodeKeys{Node: m.Node, Live: m.Live}
		if m.Live {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			keys, err := n.orderKeys(ctx, m.Node, gossip.KeyOrder{Do: gossip.KeyList})
			cancel()
			if k.Keys = keys; err != nil {
				k.Problem = err.Error()
			}
		} else {
			k.Problem = "not live since " + m.Since.Format(time.RFC3339)
		}
		all = append(all, k)
	}
	control.Reply(w, all, nil)
}

// followInterval is how often the leader looks whether all nodes have a key of the newest authority.
const followInterval = 15 * time.Second

// followAuthority has the cluster use the gossip key of a new peers' authority. Each node installs it when it knows the
// authority; when all live ones have, the raft leader brings them to use it. A node that is away finds it by itself.
func (n *process) followAuthority(ctx context.Context) error {
	if n.mesh.Ring().Keys().Origin != gossip.KeysDerived {
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
		own := n.mesh.Ring().Keys()
		if !n.Leader() || len(own.Secrets) == 0 || own.Primary().Secret == own.Secrets[0] {
			continue
		}
		rot := n.rotation(true)
		bounded, cancel := context.WithTimeout(ctx, rotationTime)
		p, err := rot.Plan(bounded)
		if err == nil && p.Unfinished {
			err = rot.Run(bounded, p)
		}
		cancel()
		if err != nil {
			n.lg.Warn("gossip does not use the key of the new authority yet", zap.Error(err))
			continue
		}
		n.lg.Info("gossip uses the key of the new authority", zap.String("key", p.Key.Fingerprint))
	}
}
