package node

import (
	"context"

	"holdfast/cmd/child"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// etcd is the member and its disk as the coordinator knows them, with the certificates that they need.
type etcd struct {
	*embedded.Member
	embedded.Disk
	certificates *pki.Keeper
}

// Start has the slot's certificates issued first.
func (e etcd) Start(ctx context.Context, s plan.Spec) error {
	if err := e.certificates.Prepare(ctx, s.Slot); err != nil {
		return err
	}
	return e.Member.Start(ctx, s)
}

// State also tells which authority has issued the certificate that the member presents.
func (e etcd) State() (plan.Member, error) {
	p, ended := e.Member.State()
	if p.Running {
		p.Issuer = e.certificates.Issuer()
	}
	return p, ended
}

// Recover replays the log in a process of its own, which it may end.
func (e etcd) Recover(ctx context.Context, from, dir string, progress func(coordinator.Progress)) (plan.LogEnd, error) {
	err := e.Copy(ctx, from, e.Database(dir), func(done, total int64) {
		progress(coordinator.Progress{Phase: "copying", Done: done, Total: total})
	})
	if err != nil {
		return plan.LogEnd{}, err
	}
	progress(coordinator.Progress{Phase: "replaying the log"})
	return child.Replay(ctx, from, dir)
}
