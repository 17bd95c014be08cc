package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The objects of a backup, in the directory of its name. etcd-manager defines the names that contain "etcd".
const (
	beginObject   = "holdfast.begin.json" // reserves the name
	zstdObject    = "etcd.backup.zst"     // the data, format native
	gzipObject    = "etcd.backup.gz"      // the data, format etcd-manager
	metaObject    = "holdfast.meta.json"  // the sidecar: holdfast's commit mark
	managerObject = "_etcd_backup.meta"   // etcd-manager's commit mark
	pinObject     = "holdfast.pin.json"   // while it exists, the backup is never pruned
	ageSuffix     = ".age"                // of the data if it is encrypted
)

// dataObjects are the names the data of a backup may have.
var dataObjects = []string{zstdObject, gzipObject, zstdObject + ageSuffix, gzipObject + ageSuffix}

// removal has every object of a backup in the order of deletion: first etcd-manager's commit mark, then holdfast's. The
// object that says whose backup it is goes last, so that Prune can complete an interrupted deletion.
var removal = slices.Concat([]string{managerObject, metaObject}, dataObjects, proofObjects(),
	[]string{pinObject, beginObject})

// proofObjects returns the names that proofs of a backup may have.
func proofObjects() (names []string) {
	for _, kind := range proofKinds {
		names = append(names, proofObject(kind))
	}
	return names
}

// Names at the top of a store that are not backups.
const (
	controlDir  = "control"           // etcd-manager's
	holdfastDir = "holdfast"          // <cluster>/...
	idObject    = "holdfast-store-id" // the store's identity
	probePrefix = "holdfast-probe-"   // of the objects that Probe writes and removes
)

// object returns the full name of one of a backup's objects.
func object(name, file string) string { return name + "/" + file }

// dataObject returns the name of the object with the data of a backup, within its directory.
func (s Stored) dataObject() string {
	file := zstdObject
	if s.Codec == codecGzip {
		file = gzipObject
	}
	if s.Encrypted {
		file += ageSuffix
	}
	return file
}

// forManager reports whether the backup is in the format that etcd-manager reads.
func (s Stored) forManager() bool { return s.Codec == codecGzip && !s.Encrypted }

// checkBackupName returns an error unless a backup may have this name. etcd-manager allows any single part of a path
// (pkg/backup/vfs.go, validateBackupName). There, names that are not times are used for backups that must stay.
func checkBackupName(name string) error {
	if !isSegment(name) {
		return fmt.Errorf("%q cannot be the name of a backup: want 1-200 of A-Z a-z 0-9 . _ : - and no dot first (see "+
			"`holdfast snapshot list`)", name)
	}
	if name == controlDir || name == holdfastDir || name == idObject || strings.HasPrefix(name, probePrefix) {
		return fmt.Errorf("%q cannot be the name of a backup: the store uses it for something else", name)
	}
	return nil
}

// formatName returns the name of the backup made at t, exact to the microsecond.
func formatName(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("%s-%06d", t.Format(time.RFC3339), t.Nanosecond()/1000)
}

// parseName returns the time in a name made by Save, and an error for any other string.
func parseName(name string) (time.Time, error) {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		t, err := time.Parse("2006-01-02T15:04:05Z.000000", name[:i]+"."+name[i+1:])
		if err == nil && formatName(t) == name {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a name that holdfast gives: want one like 2026-07-01T00:15:03Z-000042", name)
}

// timeOf returns the time in a name, or zero. It parses names as etcd-manager does: a time up to the first "Z-", then
// anything (pkg/backupcontroller/parse.go).
func timeOf(name string) time.Time {
	if t, err := parseName(name); err == nil {
		return t
	}
	if i := strings.Index(name, "Z-"); i >= 0 {
		if t, err := time.Parse(time.RFC3339, name[:i+1]); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// begin is the object that reserves a name: it says which node has been writing a backup there, and since when.
type begin struct {
	Version int       `json:"version"` // 1
	Cluster string    `json:"cluster,omitempty"`
	Lineage string    `json:"lineage,omitempty"`
	Node    string    `json:"node,omitempty"`
	Since   time.Time `json:"since"`
	// SHA256 is set by Copy to the digest of the data that it writes. A copier of the same data need not wait for it.
	SHA256 string `json:"sha256,omitempty"`
}

// encodeBegin returns the text of a begin object. It sets the version.
func encodeBegin(b begin) ([]byte, error) {
	b.Version = 1
	return encodeLine(beginObject, b)
}

// encodeLine encodes a small object as one line of JSON.
func encodeLine(file string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", file, err)
	}
	return append(text, '\n'), nil
}

// checkOwner returns an error unless cluster and lineage are valid in a small object.
func checkOwner(cluster, lineage string) error {
	if cluster != "" && !isSegment(cluster) || lineage != "" && !isSegment(lineage) {
		return errors.New("cluster or lineage is not a valid name")
	}
	return nil
}

func decodeBegin(text []byte) (begin, error) {
	var b begin
	err := json.Unmarshal(text, &b)
	switch {
	case err != nil:
	case b.Version != 1:
		err = fmt.Errorf("want version 1, got %d", b.Version)
	default:
		err = checkOwner(b.Cluster, b.Lineage)
	}
	if err != nil {
		return begin{}, fmt.Errorf("decode %s: %w", beginObject, err)
	}
	return b, nil
}
