package node

import (
	"context"

	"holdfast/cmd/child"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// etcd is the member and its disk, with the certificates that they need. It implements [coordinator.Etcd].
type etcd struct {
	*embedded.Member
	embedded.Disk
	certificates *pki.Keeper
}

// Start issues the slot's certificates, and then starts the member.
func (e etcd) Start(ctx context.Context, s plan.Spec) error {
	if err := e.certificates.Prepare(ctx, s.Slot); err != nil {
		return err
	}
	return e.Member.Start(ctx, s)
}

// State adds the issuer of the member's certificate to the state of the member.
func (e etcd) State() (plan.Member, error) {
	p, ended := e.Member.State()
	if p.Running {
		p.Issuer = e.certificates.Issuer()
	}
	return p, ended
}

// Recover copies the database and replays the log on the copy. The replay runs in a process of its own, because the log
// may make it panic.
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
