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

// Disk reads, moves and builds data directories on which no etcd runs. Names says what their members are called.
type Disk struct{ Names Names }

// Inspect reads dir, even under a running etcd, and changes nothing. It reads only the newest WAL file (64 MB), and
// older ones only if that has no entry yet. A file that cannot be read is an error and never counts as absent, because
// a member without a log is replaced.
func (Disk) Inspect(dir string) (d plan.DataDir, err error) {
	if text, err := os.Readlink(dir); err == nil && text == managerLink {
		return d, nil // TakeUp was interrupted: the data is not here yet, and beside the volume is another program's
	}
	if _, err := os.Stat(datadir.ToBackendFileName(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	// Names sort by sequence number. etcd creates the WAL under another name and then renames it, so a WAL that exists
	// is complete.
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

// readWAL reads one WAL file into d, and reports whether the file shows where the log ends.
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
			// A file begins with the checksum at the end of the one before.
			if crc := decoder.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
				err = wal.ErrCRCMismatch
			}
			decoder.UpdateCRC(value(rec.Crc))
		}
		if err != nil {
			return false, err
		}
	}
	// A crash or a running etcd may have left the last record half written.
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if !ids {
		return false, errors.New("it has no member ID")
	}
	d.Member, d.ClusterID = value(meta.NodeID), value(meta.ClusterID)
	d.Log = plan.LogEnd{Term: value(entry.Term), Index: value(entry.Index)}
	d.Term = max(d.Term, value(state.Term))
	// A follower that received a snapshot has no log before it. etcd does not use a snapshot that was not committed
	// either.
	if at := value(snap.Index); at > d.Log.Index && at <= value(state.Commit) {
		d.Log, found = plan.LogEnd{Term: value(snap.Term), Index: at}, true
	}
	return found, nil
}
