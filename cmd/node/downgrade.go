package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/health"
)

// DowngradeBackup is how old the newest backup may be when a downgrade begins.
const DowngradeBackup = 5 * time.Minute

// downgrade returns the state of a downgrade to a minor version, from the status of all members.
func (n routes) downgrade(ctx context.Context, to string) (health.Downgrade, error) {
	e := n.etcd.Status()
	if !e.Running {
		return health.Downgrade{}, fmt.Errorf("this node runs no member; ask one that does: %s", n.coord.Now().Action.Text())
	}
	return health.AssessDowngrade(n.statusOfAll(ctx), n.etcd.Members(), n.etcd.MemberNames(), e.ClusterVersion,
		e.Downgrade, to)
}

// beginDowngrade makes sure that there is a recent backup, and starts etcd's downgrade unless it is under way.
func (n routes) beginDowngrade(ctx context.Context, to string) error {
	d, err := n.downgrade(ctx, to)
	switch {
	case err != nil:
		return err
	case d.Phase == health.DowngradeRefused:
		return fmt.Errorf("no downgrade to etcd %s: %s", d.To, strings.Join(d.Why, "; "))
	case d.Phase != health.DowngradePossible:
		return nil
	}
	if _, err := n.keeper.Fresh(ctx, DowngradeBackup); err != nil {
		return fmt.Errorf("no downgrade without a backup: %w", err)
	}
	return n.etcd.Downgrade(ctx, d.To)
}
