package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// Maintenance takes care of the database: its size, its alarms, its version.
type Maintenance struct{ *present }

// Quiet reports whether no snapshot of the database is open, ours or a client's, so that a defragmentation could begin
// at once.
func (m Maintenance) Quiet() bool {
	l, err := m.running()
	if err != nil {
		return true
	}
	if !l.gate.tryAll() {
		return false
	}
	l.gate.releaseAll()
	return true
}

// roomForLog is free space on a volume, in bytes, for etcd's log while the database is rewritten: two segments.
const roomForLog = 128 << 20

// Defragment rewrites the database file. It blocks every read and write of this member for seconds per GiB and cannot
// be interrupted; ctx bounds only the wait for open snapshots. It does not begin unless the volume has as much free
// space as the data takes. Hand the leadership over first.
func (m Maintenance) Defragment(ctx context.Context) (err error) {
	defer during(&err, "defragment")
	l, err := m.running()
	if err != nil {
		return err
	}
	if err := l.gate.acquireAll(ctx); err != nil {
		return fmt.Errorf("wait for open snapshots: %w", err)
	}
	defer l.gate.releaseAll()
	if l.abort.dropped() {
		return errStopped
	}
	need := l.stored().space.InUse + roomForLog
	if free, err := freeSpace(l.spec.DataDir); err != nil {
		return err
	} else if free < need {
		return fmt.Errorf("the volume has %d MiB free, and the new file needs up to %d MiB beside the old "+
			"one: make the volume larger", free>>20, need>>20)
	}
	l.freeze()
	defer l.thaw()
	return l.etcd.Server.Defragment()
}

// Compact drops the history up to a revision, through raft, and returns when this member has done so. The other members
// do it at the same time. It is no error if the revision is compacted already.
func (m Maintenance) Compact(ctx context.Context, revision int64) error {
	return m.asRoot(ctx, fmt.Sprintf("compact to revision %d", revision), func(ctx context.Context, l *life) error {
		_, err := l.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
		if errors.Is(err, mvcc.ErrCompacted) {
			return nil
		}
		return err
	})
}

// Raise raises an alarm, NOSPACE or CORRUPT, for this member, through raft. etcd does the same when a database reaches
// its quota or differs from the others.
func (m Maintenance) Raise(ctx context.Context, alarm string) error {
	return m.asRoot(ctx, "raise "+alarm, func(ctx context.Context, l *life) error {
		return l.alarm(ctx, pb.AlarmRequest_ACTIVATE, uint64(l.etcd.Server.MemberID()), pb.AlarmType(pb.AlarmType_value[alarm]))
	})
}

// alarm raises or clears an alarm. ctx must be root's.
func (l *life) alarm(ctx context.Context, action pb.AlarmRequest_AlarmAction, member uint64, kind pb.AlarmType) error {
	_, err := l.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: member, Alarm: kind})
	return err
}

func alarmed(srv *etcdserver.EtcdServer, kind pb.AlarmType) bool {
	return slices.ContainsFunc(srv.Alarms(), func(a *pb.AlarmMember) bool { return a.Alarm == kind })
}

// refuses reports whether etcd refuses this request because of NOSPACE. etcd itself finds out only when it applies the
// request (apply/capped.go), and by then it is in the log of every member. Clients that keep retrying would fill a disk
// with refused writes. If a member learns of the alarm too late, etcd still refuses the request.
func (l *life) refuses(req any) bool {
	switch r := req.(type) {
	case *pb.PutRequest, *pb.LeaseGrantRequest:
	case *pb.TxnRequest:
		if !puts(r) {
			return false
		}
	default:
		return false
	}
	// etcd may answer clients a moment before it reports that it has started.
	return closed(l.up) && alarmed(l.etcd.Server, pb.AlarmType_NOSPACE)
}

// puts reports whether a transaction puts a key in any branch. etcd refuses it even if that branch would not be taken.
func puts(r *pb.TxnRequest) bool {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn()) {
			return true
		}
	}
	return false
}

// Disarm clears the alarm NOSPACE of every member, and no other alarm.
func (m Maintenance) Disarm(ctx context.Context) error {
	return m.lower(ctx, "disarm", func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
}

// lower clears the alarms that which selects. Errors begin with what.
func (m Maintenance) lower(ctx context.Context, what string, which func(*pb.AlarmMember) bool) error {
	return m.asRoot(ctx, what, func(ctx context.Context, l *life) error {
		for _, a := range l.etcd.Server.Alarms() {
			if !which(a) {
				continue
			}
			if err := l.alarm(ctx, pb.AlarmRequest_DEACTIVATE, a.MemberID, a.Alarm); err != nil {
				return fmt.Errorf("%s of member %x: %w", a.Alarm, a.MemberID, err)
			}
		}
		return nil
	})
}

// Mark commits a mark while an alarm makes etcd refuse every write: it raises the same alarm again, in the name of a
// member that does not exist. etcd still commits alarms, because the appliers of NOSPACE and CORRUPT (uber_applier.go)
// refuse puts, transactions and leases only. Status shows the mark among the alarms, and disarming the alarm clears it.
func (m Maintenance) Mark(ctx context.Context, mark uint64) error {
	return m.asRoot(ctx, "raise a mark", func(ctx context.Context, l *life) error {
		kind := pb.AlarmType_NONE
		for _, a := range l.etcd.Server.Alarms() {
			kind = max(kind, a.Alarm) // CORRUPT before NOSPACE
		}
		if kind == pb.AlarmType_NONE {
			return errors.New("no alarm is raised that would need one")
		}
		return l.alarm(ctx, pb.AlarmRequest_ACTIVATE, mark, kind)
	})
}

// Unmark clears a mark, and no member's alarm. It may be repeated.
func (m Maintenance) Unmark(ctx context.Context, mark uint64) error {
	return m.lower(ctx, "take a mark back", func(a *pb.AlarmMember) bool { return a.MemberID == mark })
}

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
