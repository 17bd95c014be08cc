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
	must(t, os.WriteFile(file, []byte(text), 0o600))
	config.AddFlags(flags)
	must(t, flags.Parse(append(args, "--node.name=n1")))
	l, err := config.Load(file, flags, nil)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return l.Config
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
