package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/config"
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
		written := make(chan struct{})
		go func() {
			defer close(written)
			if data, err := json.Marshal(lastEnd{reason, time.Now().UTC()}); err == nil {
				_ = os.WriteFile(lastEndFile(cfg), data, 0o600) // the log has said it, too
			}
		}()
		select {
		case <-written:
		case <-time.After(noteWait):
		}
	}
}
