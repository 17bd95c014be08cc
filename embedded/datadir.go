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
)

// DataDir is what can be read from a data directory without opening it.
type DataDir struct {
	Empty    bool // nothing in it, or it does not exist
	WAL      bool // a WAL exists: this disk has been a member and may have voted
	Database bool // a database exists; without a WAL it is the rest of something

	// From the WAL; 0 without one.
	MemberID  uint64
	ClusterID uint64
	// LastTerm and LastIndex are those of the last log entry. The greater pair, term
	// first, is the more advanced log (R4).
	LastTerm  uint64
	LastIndex uint64
	// Term is the newest term that this disk has noted: it has neither voted nor acknowledged anything in a later one.
	Term uint64
}

// Inspect reads dir, also under a running etcd, and changes nothing. It reads the newest
// WAL file (64 MB) and no more unless that one has no entry yet.
func Inspect(dir string) (DataDir, error) {
	var d DataDir
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	d.Empty = len(entries) == 0
	switch _, err := os.Stat(datadir.ToBackendFileName(dir)); {
	case err == nil:
		d.Database = true
	case !errors.Is(err, fs.ErrNotExist):
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	// Names sort by sequence number. etcd makes the WAL under another name and renames
	// it, so one that exists is whole.
	files, err := filepath.Glob(filepath.Join(datadir.ToWALDir(dir), "*.wal"))
	if err != nil {
		return d, fmt.Errorf("inspect data directory: %w", err)
	}
	d.WAL = len(files) > 0
	for _, file := range slices.Backward(files) {
		found, err := d.readWAL(file)
		if err != nil {
			return d, fmt.Errorf("inspect WAL file %s: %w", file, err)
		}
		if found {
			break
		}
	}
	return d, nil
}

// readWAL reads one WAL file and reports whether it tells the end of the log.
func (d *DataDir) readWAL(file string) (found bool, err error) {
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
			// A file goes on with the checksum of the one before.
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
	d.MemberID, d.ClusterID = value(meta.NodeID), value(meta.ClusterID)
	d.LastTerm, d.LastIndex = value(entry.Term), value(entry.Index)
	d.Term = max(d.Term, value(state.Term))
	// A follower that got a snapshot has nothing of the log before it. A snapshot that
	// was not committed is not used by etcd either.
	if at := value(snap.Index); at > d.LastIndex && at <= value(state.Commit) {
		d.LastTerm, d.LastIndex, found = value(snap.Term), at, true
	}
	return found, nil
}
