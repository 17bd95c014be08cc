package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/embedded"
	"holdfast/embedded/health"
)

// repairTime limits a repair, which is one write through raft.
const repairTime = 10 * time.Second

// repair makes one repair, if a new look at the facts still offers it.
func (n routes) repair(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	offered := health.Facts{Offline: "asked only for what is repaired",
		Endpoints: n.unleasedIn(ctx, endpointsPrefix, mostEndpoints)}
	for _, f := range offered.Judge(nil) {
		if f.Fix == nil || f.Fix.ID != id {
			continue
		}
		err := n.etcd.DeleteUnchanged(ctx, f.Fix.Key, f.Fix.Revision)
		if errors.Is(err, embedded.ErrChanged) {
			return fmt.Errorf("%w: it was written meanwhile, so it is not stale; nothing was changed", err)
		}
		return err
	}
	return fmt.Errorf("%q is no repair that is offered by now: run `holdfast doctor` again; nothing was changed", id)
}
