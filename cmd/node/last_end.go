package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
)

// lastEnd remembers in node.data-dir why the process ended by itself. The history lies on the volume, and is lost with
// it.
type lastEnd struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// noteWait is how long a process that ends waits for its last word to be written: whatever ends it may hang this disk,
// too.
const noteWait = 300 * time.Millisecond

func lastEndFile(cfg config.Config) string { return filepath.Join(cfg.Node.DataDir, "last-end.json") }

// noteEnd writes down why the process ends, as well as it can.
func noteEnd(cfg config.Config) func(reason string) {
	return func(reason string) {
		briefly(func() {
			if data, err := json.Marshal(lastEnd{reason, time.Now().UTC()}); err == nil {
				_ = os.WriteFile(lastEndFile(cfg), data, 0o600) // the log has said it, too
			}
		})
	}
}

// briefly does something on the disk of node.data-dir, and does not wait long for it.
func briefly(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(noteWait):
	}
}

// settleEnd writes down why the process could not go on, or forgets what another one wrote, if it ends in good order.
// What is written of a lost volume stays.
func settleEnd(cfg config.Config, err error) {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		briefly(func() { _ = os.Remove(lastEndFile(cfg)) }) // there rarely is one
	case !errors.Is(err, coordinator.ErrVolumeLost):
		noteEnd(cfg)(err.Error())
	}
}

// readEnd returns why the process that ran here last ended by itself. The error is [fs.ErrNotExist] if it did not, or if
// a process has begun or ended in good order since.
func readEnd(cfg config.Config) (last lastEnd, err error) {
	data, err := os.ReadFile(lastEndFile(cfg))
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	return last, err
}

// LastEnd says that the node's process ended by itself and why, "" if it did not, or if another has begun since.
func LastEnd(cfg config.Config) string {
	last, err := readEnd(cfg)
	if err != nil || cfg.Control.Remote.Address != "" { // another machine's node is meant
		return ""
	}
	return fmt.Sprintf("the process of %s ended by itself at %s: %s", cfg.Node.Name, last.At.Format(time.RFC3339),
		last.Reason)
}

// tellEnd says why the process before this one ended, and forgets it.
func (n *node) tellEnd() {
	last, err := readEnd(n.cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		n.lg.Warn("the process before this one ended by itself", zap.String("reason", last.Reason), zap.Time("at", last.At))
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryEnd,
			Why: fmt.Sprintf("at %s: %s", last.At.Format(time.RFC3339), last.Reason), Outcome: coordinator.Failed})
		err = os.Remove(lastEndFile(n.cfg))
	}
	if err != nil {
		n.lg.Warn("why the process before this one ended cannot be read, or not be forgotten", zap.Error(err))
	}
}
