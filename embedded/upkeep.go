package embedded

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// Quiet reports whether no snapshot of the database is open, ours or a client's: a defragmentation could begin at once.
func (m *Member) Quiet() bool {
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

// roomForLog stays free on a volume for what etcd's log takes while the database is written anew: two segments.
const roomForLog = 128 << 20

// Defragment rewrites the database file. It blocks every read and write of this member for seconds per GiB and cannot
// be interrupted; ctx bounds only the wait for open snapshots. The volume needs as much room as the data takes, else
// nothing is begun. Hand the leadership over first.
func (m *Member) Defragment(ctx context.Context) error {
	l, err := m.running()
	if err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	if err := l.gate.acquireAll(ctx); err != nil {
		return fmt.Errorf("defragment: wait for open snapshots: %w", err)
	}
	defer l.gate.releaseAll()
	if l.abort.dropped() {
		return fmt.Errorf("defragment: %w", ErrStopped)
	}
	need := l.stored().database.InUse + roomForLog
	if free, err := freeSpace(l.spec.DataDir); err != nil {
		return fmt.Errorf("defragment: %w", err)
	} else if free < need {
		return fmt.Errorf("defragment: the volume has %d MiB free, and the new file needs up to %d MiB beside the old one: make the volume larger", free>>20, need>>20)
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
func (m *Member) Compact(ctx context.Context, revision int64) error {
	l, err := m.running()
	if err != nil {
		return fmt.Errorf("compact to revision %d: %w", revision, err)
	}
	srv := l.etcd.Server
	_, err = srv.Compact(srv.AuthStore().WithRoot(ctx), &pb.CompactionRequest{Revision: revision, Physical: true})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return fmt.Errorf("compact to revision %d: %w", revision, err)
	}
	return nil
}

// Disarm takes back the alarm NOSPACE of every member, and no other alarm.
func (m *Member) Disarm(ctx context.Context) error {
	l, err := m.running()
	if err != nil {
		return fmt.Errorf("disarm: %w", err)
	}
	srv := l.etcd.Server
	for _, a := range srv.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		req := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: a.Alarm}
		if _, err := srv.Alarm(srv.AuthStore().WithRoot(ctx), req); err != nil {
			return fmt.Errorf("disarm %s of member %x: %w", a.Alarm, a.MemberID, err)
		}
	}
	return nil
}
