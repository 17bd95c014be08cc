package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
)

// createdObject is etcd-manager's mark that it has created a cluster (kubernetes-sigs/etcd-manager,
// pkg/commands/vfs.go). Its etcd-cluster-spec proves nothing: kops writes that before there is a cluster.
const createdObject = controlDir + "/etcd-cluster-created"

// Managed returns the objects that show that etcd-manager keeps a cluster in the store, or "": its mark that it has
// created one, and backups that it alone has written.
func Managed(ctx context.Context, store Store) (string, error) {
	c, err := scan(ctx, store, "")
	if err != nil {
		return "", err
	}
	created, err := Exists(ctx, store, createdObject) // whatever the listing shows
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", createdObject, err)
	}
	var signs []string
	if created {
		signs = append(signs, createdObject)
	}
	backups, last := 0, ""
	for _, e := range c.entries {
		if e.has(managerObject) && !e.has(beginObject) && !e.has(metaObject) {
			backups, last = backups+1, e.name
		}
	}
	switch {
	case backups == 1:
		signs = append(signs, "backup "+last)
	case backups > 1:
		signs = append(signs, fmt.Sprintf("%d backups, such as %s", backups, last))
	}
	return strings.Join(signs, " and "), nil
}

// encodeManagerMeta returns etcd-manager's commit mark for a backup: etcd.BackupInfo (kubernetes-sigs/etcd-manager,
// pkg/apis/etcd/etcdapi.proto) in proto3's JSON. It has the version that wrote the data, the time in seconds, and the
// number of members. etcd-manager refuses a file with any other key, so everything else is in the sidecar.
func encodeManagerMeta(meta Meta) ([]byte, error) {
	if meta.EtcdVersion == "" {
		return nil, fmt.Errorf("encode %s: etcd-manager cannot restore without the version of etcd, and it is not known",
			managerObject)
	}
	file := struct {
		EtcdVersion string       `json:"etcdVersion"`
		Timestamp   string       `json:"timestamp"` // proto3's JSON has 64-bit numbers as strings
		ClusterSpec *ManagerSpec `json:"clusterSpec,omitempty"`
	}{EtcdVersion: meta.managerVersion(), Timestamp: strconv.FormatInt(meta.Created.Unix(), 10)}
	if meta.Members > 0 {
		file.ClusterSpec = &ManagerSpec{meta.Members, file.EtcdVersion}
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", managerObject, err)
	}
	return append(text, '\n'), nil
}

// managerVersion returns the version of etcd with which etcd-manager should restore: the one that ran, if the database
// has its minor. Otherwise the database was kept at or downgraded to another minor, of which only the first version is
// known. That is enough: for 3.5 and 3.6 etcd-manager (pkg/etcdversions/mappings.go) restores with the patch level that
// it has; only for 3.7 it demands the exact version.
func (m Meta) managerVersion() string {
	ran, err := semver.NewVersion(m.EtcdVersion)
	if err != nil {
		return m.EtcdVersion
	}
	stored, err := semver.NewVersion(m.StorageVersion)
	if err != nil || stored.Major == ran.Major && stored.Minor == ran.Minor {
		return m.EtcdVersion
	}
	return m.StorageVersion
}

// decodeManagerMeta decodes etcd-manager's mark, of any age. It has EtcdVersion, Created and Members, or some of them.
// What a protobuf parser accepts is accepted: names in either style, numbers with or without quotes, and unknown keys,
// which are skipped.
func decodeManagerMeta(text []byte) (m Meta, err error) {
	var file struct {
		EtcdVersion  string      `json:"etcdVersion"`
		EtcdVersion2 string      `json:"etcd_version"`
		Timestamp    jsonInt     `json:"timestamp"`
		ClusterSpec  ManagerSpec `json:"clusterSpec"`
		ClusterSpec2 ManagerSpec `json:"cluster_spec"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return m, fmt.Errorf("decode %s: %w", managerObject, err)
	}
	m.EtcdVersion = cmp.Or(file.EtcdVersion, file.EtcdVersion2)
	m.Members = max(file.ClusterSpec.Members, file.ClusterSpec2.Members)
	if file.Timestamp != 0 {
		m.Created = time.Unix(int64(file.Timestamp), 0).UTC()
		if year := m.Created.Year(); year < 1970 || year > 9999 {
			return Meta{}, fmt.Errorf("decode %s: timestamp: must be in seconds since 1970, got %d", managerObject,
				file.Timestamp)
		}
	}
	return m, nil
}

// jsonInt is a 64-bit number in proto3's JSON: a string or a number.
type jsonInt int64

func (n *jsonInt) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		return nil
	}
	if unquoted, ok := strings.CutPrefix(text, `"`); ok {
		text = strings.TrimSuffix(unquoted, `"`)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("want a whole number, got %.40s", b)
	}
	*n = jsonInt(v)
	return nil
}
