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
	"holdfast/cmd/control"
	"holdfast/durable"
	"holdfast/embedded/coordinator"
	"holdfast/volume"
)

// lastEnd is why the process ended by itself. It is kept in node.data-dir: the history is on the volume, and is lost
// with it.
type lastEnd struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// noteWait is how long a process that ends waits for this file to be written. What ended the process may have made this
// disk hang, too.
const noteWait = 300 * time.Millisecond

func lastEndFile(cfg config.Config) string { return filepath.Join(cfg.Node.DataDir, "last-end.json") }

// noteEnd returns a function that writes why the process ends. It ignores errors.
func noteEnd(cfg config.Config) func(reason string) {
	return func(reason string) {
		durable.Soon(noteWait, func() error {
			data, err := json.Marshal(lastEnd{reason, time.Now().UTC()})
			if err == nil {
				err = os.WriteFile(lastEndFile(cfg), data, 0o600)
			}
			return err // ignored: the log has the reason as well
		})
	}
}

// settleEnd writes why the process cannot continue. If the process ends on request, it removes what an earlier one
// wrote. A note about a lost volume stays.
func settleEnd(cfg config.Config, err error) {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		durable.Soon(noteWait, func() error { return os.Remove(lastEndFile(cfg)) }) // there rarely is one
	case !errors.Is(err, coordinator.ErrVolumeLost):
		noteEnd(cfg)(err.Error())
	}
}

// readEnd returns why the last process ended by itself. The error is [fs.ErrNotExist] if it did not, or if another
// process has started since.
func readEnd(cfg config.Config) (last lastEnd, err error) {
	data, err := os.ReadFile(lastEndFile(cfg))
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	return last, err
}

// LastEnd returns a text about why the node's last process ended by itself. It is "" if the process did not, or if
// another one has started since.
func LastEnd(cfg config.Config) string {
	last, err := readEnd(cfg)
	if err != nil || cfg.Control.Remote.Address != "" { // the command asks a node on another machine
		return ""
	}
	return fmt.Sprintf("the process of %s ended by itself at %s: %s", cfg.Node.Name, last.At.Format(time.RFC3339),
		last.Reason)
}

// tellEnd logs why the process before this one ended, adds it to the history, and removes the file.
func (n *node) tellEnd() {
	last, err := readEnd(n.cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		n.lg.Warn("the previous process ended by itself", zap.String("reason", last.Reason), zap.Time("at", last.At))
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryEnd,
			Why: fmt.Sprintf("at %s: %s", last.At.Format(time.RFC3339), last.Reason), Outcome: coordinator.Failed})
		err = os.Remove(lastEndFile(n.cfg))
	}
	if err != nil {
		n.lg.Warn("could not read or remove the reason why the previous process ended", zap.Error(err))
	}
}

// AskHistory asks a node for the entries of its history after a time.
func AskHistory(ctx context.Context, client *control.Client, after time.Time) (h coordinator.History, err error) {
	err = client.Get(ctx, "GET /history", &h, control.Args{"after": after.Format(time.RFC3339Nano)})
	return h, err
}

// HistoryAlone reads the history on the volumes of this machine, because the node does not answer; silent is its error.
// It also returns the directory that it read.
func HistoryAlone(cfg config.Config, silent error) (h coordinator.History, root string, err error) {
	if cfg.Volume.Provider != volume.ProviderLocal {
		return h, "", fmt.Errorf("%w; without the node, say --file PATH of the history.jsonl on its volume", silent)
	}
	_, root = cfg.VolumeDirectory()
	if cfg.Volume.Local.Directory != "" {
		return coordinator.ReadHistory(root), root, nil
	}
	if h, err = coordinator.ReadHistories(root); err != nil {
		err = fmt.Errorf("no node answers, and there are no volumes to read: %w", err)
	}
	return h, root, err
}
