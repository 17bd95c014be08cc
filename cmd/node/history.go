package node

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/volume"
)

// AskHistory asks a node for the entries of its history after a time.
func AskHistory(ctx context.Context, client *control.Client, after time.Time) (h coordinator.History, err error) {
	q := url.Values{"after": {after.Format(time.RFC3339Nano)}}
	err = client.Get(ctx, http.MethodGet, "/history?"+q.Encode(), &h)
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
