package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

// keysFile is the file in tls.dir that holds the derived gossip keys.
const keysFile = "gossip-keys.json"

// KeysPath is the file in which this machine keeps the derived gossip keys.
func KeysPath(cfg config.Config) string { return filepath.Join(cfg.TLS.Dir, keysFile) }

// derivedRing returns the ring of derived gossip keys where the configuration means one, and nil otherwise. secrets
// gives what they are derived from.
func derivedRing(cfg config.Config, secrets func() [][]byte) (*gossip.Ring, error) {
	if cfg.Gossip.KeyFile != "" || !cfg.TLS.Issues() {
		return nil, nil
	}
	if err := os.MkdirAll(cfg.TLS.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make tls.dir: %w", err)
	}
	return gossip.DerivedRing(KeysPath(cfg), secrets), nil
}

// ObserverRing returns the keys of the node of this machine, for an observer that was given none of its own.
func ObserverRing(cfg config.Config) (*gossip.Ring, error) {
	if cfg.Gossip.KeyFile != "" || !cfg.TLS.Issues() {
		return nil, nil
	}
	path := KeysPath(cfg)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("gossip.key-file: must be set for an observer with tls.mode %s where no node keeps its keys (%w): `holdfast gossip export-key --to FILE` on a node writes one", cfg.TLS.Mode, err)
	}
	return gossip.DerivedRing(path, func() [][]byte { return nil }), nil
}

// witness is what a node was the witness of when it published this.
func witness(state []byte) (w gossip.Witness) {
	var facts plan.Facts
	if json.Unmarshal(state, &facts) == nil {
		w.Slot, w.Disk = facts.Slot, facts.Disk
		if facts.Record != nil {
			w.Record = facts.Record.Token()
		}
	}
	return w
}

// KeyRotation is the answer to POST /gossip/rotate.
type KeyRotation struct {
	gossip.RotationPlan
	Observers []string `json:"observers,omitempty"`
}

// rotateGossip has all nodes use another gossip key.
func (n routes) rotateGossip(r *http.Request) (any, error) {
	// The caller may go away: what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), gossip.RotationTime)
	defer cancel()
	rot := n.orders.Rotation(r.FormValue("force") == "true")
	p, err := rot.Plan(ctx)
	if err == nil {
		err = rot.Permit(p)
	}
	if err == nil && !control.Dry(r) {
		err = rot.Run(ctx, p)
	}
	answer := KeyRotation{RotationPlan: p}
	for _, o := range n.mesh.Observers() {
		answer.Observers = append(answer.Observers, o.Node)
	}
	return answer, err
}

// forget has all nodes forget a lost one.
func (n routes) forget(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), gossip.RotationTime) // as above
	defer cancel()
	return n.orders.Forget(ctx, r.FormValue("node"), control.Dry(r))
}
