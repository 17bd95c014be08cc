package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Meta is the sidecar of a backup. The caller of Save sets the fields from Cluster to EtcdVersion, Save sets the
// others.
type Meta struct {
	// Name is the name of the backup, unique in its store. Names made by Save are ordered by time. Names made by
	// etcd-manager or a person may be any single part of a path.
	Name string `json:"name"`
	// Created is the time of the snapshot in UTC, exact to the microsecond, and the same as in Name. For a legacy backup
	// it is etcd-manager's time, exact to the second, or zero if there is none.
	Created time.Time `json:"created"`

	// Cluster is the cluster's name, a single part of an object name.
	Cluster string `json:"cluster"`
	// Generation is the number of the cluster's generation.
	Generation uint64 `json:"generation"`
	// Record is the id of the generation's record.
	Record string `json:"record"`
	// Lineage is the ID of the founding from which the generation descends, or "" if it is not known. With Cluster it says
	// whose backup this is.
	Lineage string `json:"lineage"`
	// EtcdClusterID is etcd's cluster ID in hex, as etcdctl prints it.
	EtcdClusterID string `json:"etcdClusterID"`
	// Slot is the slot of the member whose database was read.
	Slot string `json:"slot"`
	// Node is the node that held the slot.
	Node string `json:"node"`
	// Members is the number of voters of the cluster, 0 if not known. It is written into etcd-manager's mark.
	Members int `json:"members"`
	// Holdfast and Etcd are the versions of the programs that wrote it.
	HoldfastVersion string `json:"holdfastVersion"`
	EtcdVersion     string `json:"etcdVersion"`

	// StorageVersion is the database's own schema version: the first version of the minor of etcd to which it belongs,
	// such as 3.6.0. It is the minor before that of EtcdVersion after a downgrade, and until the last member is upgraded.
	// It is "" if the database has none, as before etcd 3.6.
	StorageVersion string `json:"storageVersion,omitempty"`
	// Content describes the content of the database.
	Content Content `json:"content"`
	// Trailer is the SHA-256 of the database file, in hex: the 32 bytes that follow it in the decompressed stream.
	Trailer string `json:"trailer"`
	// Stored describes the object that holds the data.
	Stored Stored `json:"stored"`
	// Verified is when the stored bytes were read back and found equal.
	Verified time.Time `json:"verified"`
}

// Stored describes the object with the data of a backup.
type Stored struct {
	// Codec is how the stream was compressed: "zstd" or "gzip".
	Codec string `json:"codec"`
	// Encrypted says that the compressed stream was encrypted with age (age-encryption.org/v1).
	Encrypted bool `json:"encrypted,omitempty"`
	// Size is the object's size in bytes.
	Size int64 `json:"size"`
	// SHA256 is the digest of the object's bytes, in hex; "" for a legacy backup.
	SHA256 string `json:"sha256"`
}

// Codecs of a backup's data.
const (
	codecZstd = "zstd" // format native
	codecGzip = "gzip" // format etcd-manager
)

// sidecar is the format of a sidecar's text. Its sum covers the bytes of meta exactly as they stand there. So a change
// of any byte is noticed, even in a field that nothing else can check. And later versions may add fields to meta, which
// older programs skip.
const sidecar = "{\n  \"version\": 1,\n  \"sha256\": \"%x\",\n  \"meta\": %s\n}\n"

func encodeMeta(m Meta) ([]byte, error) {
	text, err := json.MarshalIndent(m, "  ", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode sidecar: %w", err)
	}
	return fmt.Appendf(nil, sidecar, sha256.Sum256(text), text), nil
}

// decodeMeta decodes a sidecar. It returns an error unless the text is exactly as it was written.
func decodeMeta(b []byte) (Meta, error) {
	var file struct {
		Version int             `json:"version"`
		Meta    json.RawMessage `json:"meta"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return Meta{}, fmt.Errorf("decode sidecar: %w", err)
	}
	if file.Version > 1 {
		return Meta{}, fmt.Errorf("decode sidecar: %w: version %d, this one knows 1", errNewer, file.Version)
	}
	if file.Version != 1 {
		return Meta{}, fmt.Errorf("decode sidecar: want version 1, got %d", file.Version)
	}
	if want := fmt.Appendf(nil, sidecar, sha256.Sum256(file.Meta), file.Meta); !bytes.Equal(b, want) {
		return Meta{}, errors.New("decode sidecar: it was changed after it was written: its sha256 does not match")
	}
	var m Meta
	if err := json.Unmarshal(file.Meta, &m); err != nil {
		return Meta{}, fmt.Errorf("decode sidecar: %w", err)
	}
	return m, m.check()
}

// check returns an error unless Save could have written m.
func (m Meta) check() error {
	var errs []error
	if t, err := parseName(m.Name); err != nil {
		errs = append(errs, err)
	} else if !t.Equal(m.Created) {
		errs = append(errs, fmt.Errorf("created: want %s as the name says, got %s", t.Format(time.RFC3339Nano),
			m.Created.Format(time.RFC3339Nano)))
	}
	errs = append(errs, m.checkOrigin())
	if m.Content.CompactRevision > m.Content.Revision {
		errs = append(errs, fmt.Errorf("content.compactRevision: must be at most the revision %d, got %d", m.Content.Revision,
			m.Content.CompactRevision))
	}
	if m.Content.Size <= 0 {
		errs = append(errs, fmt.Errorf("content.size: must be positive, got %d", m.Content.Size))
	}
	if m.Stored.Size <= 0 {
		errs = append(errs, fmt.Errorf("stored.size: must be positive, got %d", m.Stored.Size))
	}
	if m.Stored.Codec != codecZstd && m.Stored.Codec != codecGzip {
		errs = append(errs, fmt.Errorf("stored.codec: must be %s or %s, got %q", codecZstd, codecGzip, m.Stored.Codec))
	}
	for key, digest := range map[string]string{"trailer": m.Trailer, "stored.sha256": m.Stored.SHA256} {
		if b, err := hex.DecodeString(digest); err != nil || len(b) != sha256.Size {
			errs = append(errs, fmt.Errorf("%s: must be 64 hex digits, got %q", key, digest))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check sidecar: %w", err)
	}
	return nil
}

// checkOrigin returns an error unless the fields set by the caller of Save are valid.
func (m Meta) checkOrigin() error {
	errs := []error{checkCluster(m.Cluster)}
	if m.Lineage != "" && !isSegment(m.Lineage) {
		errs = append(errs, fmt.Errorf("lineage: must be the id of a record or empty, got %q", m.Lineage))
	}
	if m.Members < 0 {
		errs = append(errs, fmt.Errorf("members: must not be negative, got %d", m.Members))
	}
	return errors.Join(errs...)
}

// checkCluster returns an error unless the name of a cluster is valid as a directory of the store.
func checkCluster(cluster string) error {
	if !isSegment(cluster) {
		return fmt.Errorf("cluster: must be 1-200 of A-Z a-z 0-9 . _ : - and not begin with a dot, got %q", cluster)
	}
	return nil
}
