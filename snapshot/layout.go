package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Objects of one backup, in the directory of its name. The names with "etcd" in them are etcd-manager's.
const (
	beginObject   = "holdfast.begin.json" // reserves the name
	zstdObject    = "etcd.backup.zst"     // the data, format native
	gzipObject    = "etcd.backup.gz"      // the data, format etcd-manager
	metaObject    = "holdfast.meta.json"  // the sidecar: our commit mark
	managerObject = "_etcd_backup.meta"   // etcd-manager's commit mark
	pinObject     = "holdfast.pin.json"   // while it is there, the backup is never pruned
	ageSuffix     = ".age"                // of the data, when encrypted
)

// dataObjects are the names the data of a backup may have.
var dataObjects = []string{zstdObject, gzipObject, zstdObject + ageSuffix, gzipObject + ageSuffix}

// removal is every object of a backup, in the order in which they are deleted: first what makes it one to etcd-manager,
// then what makes it one to us. What tells whose it was goes last, so that a deletion that was cut short can be
// completed by Prune.
var removal = slices.Concat([]string{managerObject, metaObject}, dataObjects, proofObjects(),
	[]string{pinObject, beginObject})

// proofObjects are the names that proofs of a backup may have.
func proofObjects() (names []string) {
	for _, kind := range proofKinds {
		names = append(names, proofObject(kind))
	}
	return names
}

// Names at the top of a store that are no backups.
const (
	controlDir  = "control"           // etcd-manager's
	holdfastDir = "holdfast"          // ours: <cluster>/...
	idObject    = "holdfast-store-id" // the store's identity
	probePrefix = "holdfast-probe-"   // of what Probe writes and removes
)

// object is the full name of one of the objects of a backup.
func object(name, file string) string { return name + "/" + file }

// dataObject is the name of the object with the data of a backup, within its directory.
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

// forManager says that the backup is in the format that etcd-manager reads.
func (s Stored) forManager() bool { return s.Codec == codecGzip && !s.Encrypted }

// checkBackupName returns an error unless a backup may have this name. etcd-manager allows any single part of a path
// (pkg/backup/vfs.go, validateBackupName), and names that are no time are used there for backups that are to stay.
func checkBackupName(name string) error {
	if !segment.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a backup: want 1-200 of A-Z a-z 0-9 . _ : - and no dot first (see "+
			"`holdfast snapshot list`)", name)
	}
	if name == controlDir || name == holdfastDir || name == idObject || strings.HasPrefix(name, probePrefix) {
		return fmt.Errorf("%q cannot be the name of a backup: the store uses it for something else", name)
	}
	return nil
}

// formatName names the backup made at t, which is exact to the microsecond.
func formatName(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("%s-%06d", t.Format(time.RFC3339), t.Nanosecond()/1000)
}

// parseName returns the time that a name given by Save tells, and an error for every other string.
func parseName(name string) (time.Time, error) {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		t, err := time.Parse("2006-01-02T15:04:05Z.000000", name[:i]+"."+name[i+1:])
		if err == nil && formatName(t) == name {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a name that holdfast gives: want one like 2026-07-01T00:15:03Z-000042", name)
}

// timeOf is the time that a name tells, zero if it tells none. etcd-manager reads its names so: a time up to the first
// "Z-", then anything (pkg/backupcontroller/parse.go).
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
	// SHA256 is set by Copy, to the digest of the data it brings. Anyone who brings the same need not wait for it.
	SHA256 string `json:"sha256,omitempty"`
}

// encodeBegin returns the object that reserves a name. It sets the version.
func encodeBegin(b begin) ([]byte, error) {
	b.Version = 1
	return encodeLine(beginObject, b)
}

// encodeLine returns the text of a small object, one line of JSON.
func encodeLine(file string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", file, err)
	}
	return append(text, '\n'), nil
}

// checkOwner returns an error unless what a small object says of whose backup it is about can stand in one.
func checkOwner(cluster, lineage string) error {
	if cluster != "" && !segment.MatchString(cluster) || lineage != "" && !segment.MatchString(lineage) {
		return errors.New("cluster or lineage is no such name")
	}
	return nil
}

// decodeBegin reads what encodeBegin has written.
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
