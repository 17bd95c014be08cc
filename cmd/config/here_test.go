package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a node would wait for, or do without, on this machine is told before it runs, and what is there is not.
func TestLacking(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "seeds"), nil, 0o600))
	ca := given(t)
	mixed := given(t)
	other := filepath.Join(given(t), GivenPeersCA+".key")
	must(t, os.Rename(other, filepath.Join(mixed, GivenPeersCA+".key")))
	must(t, os.Symlink("not-mounted", filepath.Join(dir, "link")))
	for name, tt := range map[string]struct {
		config string
		want   []string // how each begins, and what is in it
	}{
		"nothing":              {"gossip: {seeds-file: DIR/seeds}", nil},
		"seeds":                {"gossip: {seeds-file: DIR/none}", []string{"gossip.seeds-file: DIR/none: no such file"}},
		"an observer's paper":  {"gossip: {observer-file: DIR/none}", []string{"gossip.observer-file: DIR/none: no such file"}},
		"an operator's paper":  {"tls: {operator-file: DIR/none}", []string{"tls.operator-file: DIR/none: no such file"}},
		"authorities":          {"tls: {ca-dir: " + ca + "}", nil},
		"another key":          {"tls: {ca-dir: " + mixed + "}", []string{"tls.mode: tls.peer-ca-file, tls.peer-ca-key-file: " + mixed}},
		"a disk":               {"volume: {local: {root: /no-such, mount: require}}", []string{"volume.local: /no-such is on the file system mounted at /"}},
		"a store":              {"snapshot: {store: DIR/none}", []string{"snapshot.store: there is no directory DIR/none: create it or mount it"}},
		"no directory":         {"snapshot: {store: DIR/seeds}", []string{"snapshot.store: DIR/seeds is not a directory"}},
		"no volumes":           {"volume: {local: {root: DIR/seeds/v}}", []string{"volume.local.root: DIR/seeds is a file"}},
		"no scratch":           {"snapshot: {scratch: DIR/seeds/x}", []string{"snapshot.scratch: DIR/seeds is a file"}},
		"a link to a store":    {"node: {data-dir: DIR}\nsnapshot: {store: DIR/link}", []string{"snapshot.store: DIR/link is a link to a directory that is not there"}},
		"a store that is here": {"snapshot: {store: DIR}", nil},
		"the volume":           {"volume: {local: {directory: DIR/none, slot: a}}", []string{"volume.local: volume.local.directory DIR/none does not exist: mount its disk"}},
		"an address of etcd's": {"etcd: {listen-client-urls: ['http://192.0.2.1:1', 'http://192.0.2.1:2']}\ntls: {insecure: true}", []string{`etcd.listen-client-urls: must be at an address of this machine, got "192.0.2.1" (`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, strings.ReplaceAll(tt.config, "DIR", dir), nil)
			got := Lacking(l)
			if !slices.EqualFunc(got, tt.want, func(got, want string) bool {
				key, text, _ := strings.Cut(strings.ReplaceAll(want, "DIR", dir), ": ")
				return strings.HasPrefix(got, key+": ") && strings.Contains(got, text)
			}) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}
