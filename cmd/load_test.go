package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"holdfast/cmd/config"
)

// configFile writes text to config.yaml in a fresh directory and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// configFlags returns the flags of a command line.
func configFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	must(t, fs.Parse(args))
	return fs
}
