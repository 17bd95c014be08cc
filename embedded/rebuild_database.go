package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// checkVersions refuses a database on which this etcd would panic because a newer one made it. An older one, from 3.4
// on, needs no change: etcd raises its versions once all members run (server/storage/schema, membership.Recover).
func checkVersions(tx *bolt.Tx) error {
	if tx.Bucket(schema.Key.Name()) == nil || tx.Bucket(schema.Meta.Name()) == nil {
		return errors.New("it has no bucket key or meta: not an etcd database")
	}
	return databaseNewer(tx)
}

// replaceMembers replaces the cluster in the database by the founder's, at the beginning of its log.
func (f founder) replaceMembers(tx *bolt.Tx) error {
	if err := f.writeMembers(tx); err != nil {
		return err
	}
	// A downgrade of the old cluster does not continue in the new one.
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		if err := b.Delete(schema.ClusterDowngradeKeyName); err != nil {
			return err
		}
	}
	if err := removeNoSpace(tx); err != nil {
		return err
	}
	meta := tx.Bucket(schema.Meta.Name())
	return errors.Join(
		meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, f.lastIndex())),
		meta.Put(schema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, foundingTerm)),
	)
}

// writeMembers makes the founder's cluster the one whose members the database lists.
func (f founder) writeMembers(tx *bolt.Tx) error {
	for _, bucket := range [][]byte{schema.Members.Name(), schema.MembersRemoved.Name()} {
		if tx.Bucket(bucket) != nil {
			if err := tx.DeleteBucket(bucket); err != nil {
				return err
			}
		}
		if _, err := tx.CreateBucket(bucket); err != nil {
			return err
		}
	}
	members := tx.Bucket(schema.Members.Name())
	for _, m := range f.cluster.Members() {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := members.Put(schema.BackendMemberKey(m.ID), text); err != nil {
			return err
		}
	}
	state, err := json.Marshal(f.confState())
	if err != nil {
		return err
	}
	return tx.Bucket(schema.Meta.Name()).Put(schema.MetaConfStateName, state)
}

// removeNoSpace removes the alarm of a database that was too large for its quota. etcd raises it again if the database
// is too large for ours. See Rebuild for CORRUPT.
func removeNoSpace(tx *bolt.Tx) error {
	alarms := tx.Bucket(schema.Alarm.Name())
	if alarms == nil {
		return nil
	}
	var keys [][]byte
	err := alarms.ForEach(func(k, _ []byte) error {
		var alarm pb.AlarmMember
		if err := unmarshal(k, &alarm); err != nil {
			return fmt.Errorf("read alarms: %w", err)
		}
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			keys = append(keys, k)
		}
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, alarms.Delete(k))
	}
	return err
}

// raiseRevision writes an entry at the new revision and schedules a compaction up to it, as etcdutl does. etcd compacts
// when it starts. The entry has no value, so etcd reads it as a key without a name. No client can read or watch such a
// key, and compactions keep it. Every member has it, so it is in every member's HashKV.
func raiseRevision(tx *bolt.Tx, bump int64) error {
	last := lastRevision(tx)
	if last > math.MaxInt64-bump {
		return fmt.Errorf("the revision is %d and cannot be raised by %d", last, bump)
	}
	rev := mvcc.RevToBytes(mvcc.Revision{Main: last + bump}, mvcc.NewRevBytes())
	return errors.Join(tx.Bucket(schema.Key.Name()).Put(rev, []byte{}),
		tx.Bucket(schema.Meta.Name()).Put(schema.ScheduledCompactKeyName, rev))
}

// lastRevision returns the revision that etcd will report after opening the database. The rule is etcd's
// (mvcc/kvstore.go, restore): compaction may have dropped the newest entry, a tombstone, and an interrupted compaction
// is continued.
func lastRevision(tx *bolt.Tx) int64 {
	last := int64(1)
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if v := tx.Bucket(schema.Meta.Name()).Get(name); v != nil {
			last = max(last, mvcc.BytesToRev(v).Main)
		}
	}
	if k, _ := tx.Bucket(schema.Key.Name()).Cursor().Last(); k != nil {
		last = max(last, mvcc.BytesToRev(k).Main)
	}
	return last
}
