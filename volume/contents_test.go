package volume

import (
	"slices"
	"testing"
)

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		files       []string
		names, ours []string
	}{
		"missing":      {},
		"set aside":    {files: []string{"aside/1-by-operator/etcd/x", "lost+found/x"}},
		"holdfast's":   {[]string{"identity.json", "etcd/member/wal/0.wal"}, []string{"etcd", "identity.json"}, nil},
		"somebody's":   {[]string{"state", "data/photos/cat.jpg"}, []string{"data", "state"}, nil},
		"etcd-manager": {[]string{"state", "data/x1/member/wal/0.wal", "pki/x1/me.crt"}, []string{"data", "pki", "state"}, []string{"state", "data/x1"}},
		"torn":         {[]string{"data/x1/member/wal/0.wal", "data/x2/member/snap/db"}, []string{"data"}, []string{"data/x1", "data/x2"}},
	} {
		dir := t.TempDir() + "/v"
		for _, f := range c.files {
			writeFile(t, dir+"/"+f, "x")
		}
		got, err := Look(dir)
		if err != nil || !slices.Equal(got.Names, c.names) || !slices.Equal(got.EtcdManager, c.ours) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
