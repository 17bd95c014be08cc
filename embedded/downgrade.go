package embedded

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Downgrade begins the downgrade of the cluster to the previous minor version, such as "3.6". Within seconds the
// cluster version and every member's storage version change to it, and members of either minor version can run. etcd
// refuses any other target, and one that it cannot reach because some member runs another minor version. The downgrade
// ends by itself when every member runs that minor version.
func (m Maintenance) Downgrade(ctx context.Context, to string) error {
	for _, action := range []pb.DowngradeRequest_DowngradeAction{
		pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE,
	} {
		err := m.askDowngrade(ctx, "downgrade to etcd "+to, &pb.DowngradeRequest{Action: action, Version: to})
		if err != nil {
			return err
		}
	}
	return nil
}

// CancelDowngrade cancels a downgrade. The versions rise again as soon as no member runs the older minor version.
func (m Maintenance) CancelDowngrade(ctx context.Context) error {
	err := m.askDowngrade(ctx, "cancel the downgrade", &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
	if err != nil {
		return err
	}
	// etcd reports no error when it could not cancel (v3_server.go, downgradeCancel).
	if l, err := m.running(); err == nil && l.etcd.Server.DowngradeInfo().Enabled {
		return errors.New("cancel the downgrade: etcd has not done it: make sure that there is a quorum, and try again")
	}
	return nil
}

func (m Maintenance) askDowngrade(ctx context.Context, what string, r *pb.DowngradeRequest) error {
	return m.asRoot(ctx, what, func(ctx context.Context, l *life) error {
		_, err := l.etcd.Server.Downgrade(ctx, r)
		return err
	})
}
