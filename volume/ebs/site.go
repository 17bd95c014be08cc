package ebs

import (
	"context"
	"fmt"
	"time"

	"holdfast/volume"
)

// pause waits, and is cut short by ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// none is the ordinary answer of a standby.
func none(format string, args ...any) error {
	return volume.None{Why: fmt.Sprintf(format, args...)}
}
