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

// Maintenance is the care for the database: its size, its alarms, its version.
type Maintenance struct{ *present }

// Quiet reports whether no snapshot of the database is open, ours or a client's: a defragmentation could begin at once.
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

// roomForLog stays free on a volume for what etcd's log takes while the database is rewritten: two segments.
const roomForLog = 128 << 20

// Defragment rewrites the database file. It blocks every read and write of this member for seconds per GiB and cannot
// be interrupted; ctx bounds only the wait for open snapshots. The volume needs as much room as the data takes, else
// nothing is begun. Hand the leadership over first.
func (m Maintenance) Defragment(ctx context.Context) error {
	l, err := m.running()
	if err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	if err := l.gate.acquireAll(ctx); err != nil {
		return fmt.Errorf("defragment: wait for open snapshots: %w", err)
	}
	defer l.gate.releaseAll()
	if l.abort.dropped() {
		return fmt.Errorf("defragment: %w", errStopped)
	}
	need := l.stored().space.InUse + roomForLog
	if free, err := freeSpace(l.spec.DataDir); err != nil {
		return fmt.Errorf("defragment: %w", err)
	} else if free < need {
		return fmt.Errorf("defragment: the volume has %d MiB free, and the new file needs up to %d MiB beside the old "+
			"one: make the volume larger", free>>20, need>>20)
	}
	l.freeze()
	defer l.thaw()
	if err := l.etcd.Server.Defragment(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// Compact drops the history up to a revision, through raft, and returns when that has been carried out on this member;
// the others do it at the same time. A revision that is compacted already is no error.
func (m Maintenance) Compact(ctx context.Context, revision int64) error {
	return m.asRoot(ctx, fmt.Sprintf("compact to revision %d", revision), func(ctx context.Context, l *life) error {
		_, err := l.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
		if errors.Is(err, mvcc.ErrCompacted) {
			return nil
		}
		return err
	})
}

// Raise raises an alarm, NOSPACE or CORRUPT, for this member, through raft, as etcd does when a database reaches its
// quota or differs from the others.
func (m Maintenance) Raise(ctx context.Context, alarm string) error {
	return m.asRoot(ctx, "raise "+alarm, func(ctx context.Context, l *life) error {
		return l.alarm(ctx, pb.AlarmRequest_ACTIVATE, uint64(l.etcd.Server.MemberID()), pb.AlarmType(pb.AlarmType_value[alarm]))
	})
}

// alarm raises an alarm, or takes it back. The context is that of root.
func (l *life) alarm(ctx context.Context, action pb.AlarmRequest_AlarmAction, member uint64, kind pb.AlarmType) error {
	_, err := l.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: member, Alarm: kind})
	return err
}

// alarmed reports whether an alarm of this kind is raised.
func alarmed(srv *etcdserver.EtcdServer, kind pb.AlarmType) bool {
	return slices.ContainsFunc(srv.Alarms(), func(a *pb.AlarmMember) bool { return a.Alarm == kind })
}

// refuses reports whether a client's request is one that etcd refuses because NOSPACE is up. Etcd itself finds out only
// when it applies the request (apply/capped.go), and until then it is in the log of every member: clients that try
// again and again would fill a disk with refused writes. A member that knows of the alarm too late lets etcd find out.
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
	// Etcd may answer clients a moment before it has said that it is started.
	return closed(l.up) && alarmed(l.etcd.Server, pb.AlarmType_NOSPACE)
}

// puts reports whether a transaction puts a key on any branch: etcd refuses one with a put that it would not come to,
// too.
func puts(r *pb.TxnRequest) bool {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn()) {
			return true
		}
	}
	return false
}

// Disarm takes back the alarm NOSPACE of every member, and no other alarm.
func (m Maintenance) Disarm(ctx context.Context) error {
	return m.lower(ctx, "disarm", func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
}

// lower takes back some of the alarms that are raised. what begins the error.
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

// Mark commits a mark where an alarm has etcd refuse every write: it raises the same alarm once more, in the name of a
// member that does not exist. Raising an alarm is what etcd commits all the same (uber_applier.go: the appliers of
// NOSPACE and CORRUPT overrule puts, transactions and leases, and leave alarms alone). Status shows it with the other
// alarms, and whatever disarms the alarm takes it back.
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

// Unmark takes a mark back, and no member's alarm; again is fine.
func (m Maintenance) Unmark(ctx context.Context, mark uint64) error {
	return m.lower(ctx, "take a mark back", func(a *pb.AlarmMember) bool { return a.MemberID == mark })
}
