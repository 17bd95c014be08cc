package embedded

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Downgrade begins the downgrade of the cluster to the minor before its own, as "3.6": within seconds the cluster's and
// every member's storage version are that, and members of either minor can run. etcd refuses another target, and one
// that it cannot reach because some member runs another minor. It is over, by itself, when every member runs that
// minor.
func (m Maintenance) Downgrade(ctx context.Context, to string) error {
	for _, action := range []pb.DowngradeRequest_DowngradeAction{
		pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE,
	} {
		if err := m.askDowngrade(ctx, &pb.DowngradeRequest{Action: action, Version: to}); err != nil {
			return fmt.Errorf("downgrade to etcd %s: %w", to, err)
		}
	}
	return nil
}

// CancelDowngrade gives a downgrade up. The versions rise again as soon as no member runs the older minor.
func (m Maintenance) CancelDowngrade(ctx context.Context) error {
	if err := m.askDowngrade(ctx, &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL}); err != nil {
		return fmt.Errorf("cancel the downgrade: %w", err)
	}
	// etcd says nothing when it could not (v3_server.go, downgradeCancel).
	if l, err := m.running(); err == nil && l.etcd.Server.DowngradeInfo().Enabled {
		return errors.New("cancel the downgrade: etcd has not done it; is there a quorum?")
	}
	return nil
}

func (m Maintenance) askDowngrade(ctx context.Context, r *pb.DowngradeRequest) error {
	l, err := m.running()
	if err != nil {
		return err
	}
	srv := l.etcd.Server
	_, err = srv.Downgrade(srv.AuthStore().WithRoot(ctx), r)
	return err
}
