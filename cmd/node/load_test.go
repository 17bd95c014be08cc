package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"holdfast/cmd/config"
)

// loaded reads a configuration that must be right. The node's name is given, so that no test depends on the host's.
func loaded(t *testing.T, text string, args ...string) config.Config {
	t.Helper()
	file, flags := filepath.Join(t.TempDir(), "config.yaml"), pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config.AddFlags(flags)
	if err := flags.Parse(append(args, "--node.name=n1")); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(file, flags, nil)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return l.Config
}
