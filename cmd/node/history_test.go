package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
)

// The reason why a process could not continue is kept until another process starts, or ends on request. No later end
// hides that the volume was lost.
func TestSettleEnd(t *testing.T) {
	cfg := config.Default()
	cfg.Node.DataDir, cfg.Node.Name = t.TempDir(), "n1"
	for _, c := range []struct {
		noted string
		err   error
		want  string
	}{
		{"", errors.New("port taken"), "port taken"},
		{"", nil, ""},
		{"the volume was lost: EIO", fmt.Errorf("run: %w", coordinator.ErrVolumeLost), "the volume was lost: EIO"},
		{"", fmt.Errorf("start: %w", context.Canceled), ""},
	} {
		if c.noted != "" {
			noteEnd(cfg)(c.noted)
		}
		settleEnd(cfg, c.err)
		if got := LastEnd(cfg); (got == "") != (c.want == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("after %v: got %q, want %q", c.err, got, c.want)
		}
	}
}
