package coordinator

import (
	"errors"
	"fmt"

	"holdfast/embedded/plan"
)

// occasion identifies what an order was given for. When it has changed, the order is void.
func occasion(o plan.Observation) string {
	text := fmt.Sprint(len(o.Disk.Ledger.Promises), " ", o.Disk.Ledger.Role)
	for _, r := range []*plan.Record{o.Disk.Ledger.Record, o.Store.Record} {
		if r != nil {
			text += " " + r.ID
		}
	}
	return text
}

// believed returns an error if what the store holds is not whole: nothing of it counts then, and nothing is taken to be
// absent.
func believed(s plan.Store) error {
	switch err := s.Valid(); {
	case errors.Is(err, plan.ErrUnsupported):
		return fmt.Errorf("%w: what it holds of the cluster is unsupported here: %w: run that version, or a newer one, on this node", ErrUnread, err)
	case err != nil:
		return fmt.Errorf("%w: what it holds of the cluster is not whole: %w; bring the objects back from another copy of the store", ErrUnread, err)
	}
	return nil
}
