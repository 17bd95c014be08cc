package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"holdfast/embedded/plan"
)

// Inspect reads dir, also under a running etcd, and changes nothing. It reads the newest
// WAL file (64 MB) and no more unless that one has no entry yet. What cannot be read is an error, and never taken for
// what is not there: a member without a log is replaced.
func (Disk) Inspect(dir string) (d plan.DataDir, err error) {
	if text, err := os.Readlink(dir); err == nil && text == managerLink {
		return d, nil // TakeUp was cut short: the data is not here yet, and beside the volume is somebody else's
	}
	if _, err := os.Stat(datadir.ToBackendFileName(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	// Names sort by sequence number. etcd makes the WAL under another name and renames
	// it, so one that exists is whole.
	entries, err := os.ReadDir(datadir.ToWALDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	var files []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".wal" {
			files = append(files, filepath.Join(datadir.ToWALDir(dir), e.Name()))
		}
	}
	d.WAL = len(files) > 0
	for _, file := range slices.Backward(files) {
		found, err := readWAL(file, &d)
		if err != nil {
			return d, fmt.Errorf("inspect WAL file %s: %w", file, err)
		}
		if found {
			break
		}
	}
	d.Unborn = d.WAL && d.Log.Index == 0
	return d, nil
}

// readWAL reads one WAL file into d and reports whether it tells the end of the log.
func readWAL(file string, d *plan.DataDir) (found bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var (
		decoder = wal.NewDecoder(fileutil.NewFileReader(f))
		meta    pb.Metadata
		entry   raftpb.Entry
		state   raftpb.HardState
		snap    walpb.Snapshot
		rec     walpb.Record
		ids     bool
	)
	for err = decoder.Decode(&rec); err == nil; err = decoder.Decode(&rec) {
		switch value(rec.Type) {
		case wal.MetadataType:
			ids, err = true, unmarshal(rec.Data, &meta)
		case wal.EntryType:
			found, err = true, unmarshal(rec.Data, &entry)
		case wal.StateType:
			err = unmarshal(rec.Data, &state)
		case wal.SnapshotType:
			err = unmarshal(rec.Data, &snap)
		case wal.CrcType:
			// A file continues with the checksum of the one before.
			if crc := decoder.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
				err = wal.ErrCRCMismatch
			}
			decoder.UpdateCRC(value(rec.Crc))
		}
		if err != nil {
			return false, err
		}
	}
	// The last record may be half written, by a crash or by a running etcd.
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if !ids {
		return false, errors.New("it has no member ID")
	}
	d.Member, d.ClusterID = value(meta.NodeID), value(meta.ClusterID)
	d.Log = plan.LogEnd{Term: value(entry.Term), Index: value(entry.Index)}
	d.Term = max(d.Term, value(state.Term))
	// A follower that got a snapshot has nothing of the log before it. A snapshot that
	// was not committed is not used by etcd either.
	if at := value(snap.Index); at > d.Log.Index && at <= value(state.Commit) {
		d.Log, found = plan.LogEnd{Term: value(snap.Term), Index: at}, true
	}
	return found, nil
}
