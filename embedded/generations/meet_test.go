package generations

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// A copied store directory has only old nonces. Nodes that share a store see each other's.
func TestNodesMeetInTheStore(t *testing.T) {
	dir, one, _ := shelf(t)
	two := New(snapshot.NewDir(dir), "main", nil)
	meet := func(r *Records, node, nonce string) {
		t.Helper()
		if err := errors.Join(r.Meet(t.Context(), node, nonce), r.Meet(t.Context(), node, nonce)); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(r *Records, want map[string]string) {
		t.Helper()
		known(t, r)
		if got := r.Nonces(); asJSON(t, got) != asJSON(t, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if one.Nonces() != nil {
		t.Error("it knows nonces before it has looked")
	}
	meet(one, "n1", "1a")
	meet(two, "n2", "2a")
	sees(one, map[string]string{"1a": "n1", "2a": "n2"})
	sees(two, map[string]string{"1a": "n1", "2a": "n2"})
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	apart := New(snapshot.NewDir(copied), "main", nil)
	meet(apart, "n2", "2b") // n2 restarts on the copy
	sees(apart, map[string]string{"1a": "n1", "2b": "n2"})
	meet(one, "n1", "1b")
	sees(one, map[string]string{"1b": "n1", "2a": "n2"})
	sees(two, map[string]string{"1b": "n1", "2a": "n2"})
	sees(apart, map[string]string{"1a": "n1", "2b": "n2"})
}

// A node that started after an outdated listing was made is found by name.
func TestNodesMeetBehindAnOldListing(t *testing.T) {
	dir, one, _ := shelf(t)
	for who, nonce := range map[string]string{"n1": "1a", "n2": "2a"} {
		if err := New(one.Store, "main", nil).Meet(t.Context(), who, nonce); err != nil {
			t.Fatal(err)
		}
	}
	old, err := one.Store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := New(&behindStore{snapshot.NewDir(dir), old, 1000}, "main", nil)
	known(t, r)
	for who, nonce := range map[string]string{"n2": "2b", "n3": "3a"} {
		if err := New(one.Store, "main", nil).Meet(t.Context(), who, nonce); err != nil {
			t.Fatal(err)
		}
	}
	known(t, r, "n2", "n3", "n4")
	if got := r.Nonces(); got["1a"] != "n1" || got["2b"] != "n2" || got["3a"] != "n3" {
		t.Errorf("got %v", got)
	}
	known(t, r)
	if got := r.Nonces(); got["3a"] != "" {
		t.Errorf("nobody is expected: got %v", got)
	}
}

// A nonce is put once. If another replaces it within the resolution of the store's times, that is noticed.
func TestNonceReplacedAtOnce(t *testing.T) {
	_, r, _ := shelf(t)
	r.Store = snapshottest.Dated{Store: r.Store} // all objects have the same time
	for _, nonce := range []string{"first", "other"} {
		if err := r.Meet(t.Context(), "n1", nonce); err != nil {
			t.Fatal(err)
		}
		known(t, r)
		if got := r.Nonces(); len(got) != 1 || got[nonce] != "n1" {
			t.Errorf("got %v, want %q", got, nonce)
		}
	}
}

func TestHostileNonces(t *testing.T) {
	dir, r, founding := shelf(t)
	if err := r.Meet(t.Context(), "n1", "mine"); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		r.HereName("torn"):                `{"node":"torn"`,
		r.HereName("empty"):               ``,
		r.HereName("null"):                `null`,
		r.HereName("n2"):                  `{"node":"n2","nonce":""}`,
		r.HereName("n3"):                  `{"node":"n1","nonce":"not mine"}`,
		r.HereName("large"):               `{"node":"large","nonce":"` + strings.Repeat("x", MaxRecord) + `"}`,
		r.prefix() + "here/zzz.json":      `{"node":"n1","nonce":"not mine"}`,
		r.prefix() + "here/a/b/c":         `{"node":"n4","nonce":"x"}`,
		r.prefix() + "here/record-9.json": asJSON(t, founding),
		r.BeaconName():                    strings.Repeat("[", 2*MaxRecord),
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got := known(t, r); got.Record.ID != founding.ID || len(got.Concluded) > 0 {
		t.Errorf("got %+v", got)
	}
	if got := r.Nonces(); len(got) != 1 || got["mine"] != "n1" {
		t.Errorf("got %v", got)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
