package backups

import (
	"context"
	"fmt"
	"time"

	"holdfast/snapshot"
)

// Prune removes the backups that snapshot.keep does not keep. With dry it only returns which. If some could not be
// deleted, it returns an error and the result.
func (b *Backups) Prune(ctx context.Context, now time.Time, dry bool) (snapshot.Pruned, error) {
	id, err := b.identity(ctx)
	if err != nil {
		return snapshot.Pruned{}, err
	}
	pruned, err := snapshot.Prune(ctx, b.Store, id, b.Config.Snapshot.Keep, now, dry)
	switch {
	case err != nil:
		err = fmt.Errorf("prune %s: %w", b.Config.Snapshot.Store, err)
	case len(pruned.Refused) > 0:
		err = fmt.Errorf("prune %s: %d could not be deleted, such as %s: %s",
			b.Config.Snapshot.Store, len(pruned.Refused), pruned.Refused[0], pruned.Kept[pruned.Refused[0]])
	}
	return pruned, err
}
