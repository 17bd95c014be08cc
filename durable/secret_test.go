package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/durable"
)

// A secret is read only if nobody but its owner may use it, and only up to the limit.
func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := durable.ReadSecret(path, 8); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: got %v", err)
	}
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o400: "", 0o640: "chmod 600 " + path, 0o604: "(mode 0604)", 0o602: path + ": others may use it",
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		text, err := durable.ReadSecret(path, 8)
		if want == "" && (err != nil || string(text) != "12345678") {
			t.Errorf("mode %o: got %q, %v", mode, text, err)
		}
		if want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("mode %o: got %v, want %q", mode, err, want)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.ReadSecret(path, 7); err == nil || !strings.Contains(err.Error(), "more than 7 bytes") {
		t.Errorf("8 bytes of 7: got %v", err)
	}
}
