package cmd

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/cmd/demo"
)

// harmless are the commands that need no --dry-run, and why.
var harmless = map[string]string{
	"run":               "it is the node itself; `config check` says what it would make of its configuration",
	"etcd-manager":      "it is the node itself; --print-config says what it would be",
	"discover":          "it is a process of its own, which keeps the files that it is given; --once shows what it makes of them",
	"status":            "it only reads",
	"history":           "it only reads",
	"version":           "it only reads",
	"etcdctl":           "it is etcd's own",
	"etcdutl":           "it is etcd's own",
	"drill-child":       "it is a part of drill",
	"replay-child":      "it is a part of recover",
	"examine-child":     "it is a part of verifying a backup",
	"gossip keygen":     "it only prints",
	"auth check":        "it only reads",
	"auth plan":         "it only reads",
	"config default":    "it only reads",
	"config check":      "it only reads",
	"config show":       "it only reads",
	"snapshot list":     "it only reads",
	"snapshot verify":   "it only reads",
	"snapshot drill":    "it only reads; what it restores aside it removes",
	"tls show":          "it only reads",
	"volume list":       "it only reads",
	"volume doctor":     "it only reads",
	"volume policy":     "it only prints",
	"takeover check":    "it only reads",
	"takeover plan":     "it only reads",
	"takeover rehearse": "it only reads; what it makes aside it removes",
	"rehearse-child":    "it is a part of a rehearsal",
	"etcd-child":        "it is a part of a rehearsal",
	"takeover status":   "it only reads",
}

// Every command that changes something can be asked first what it would do.
func TestDryRunOfEveryCommand(t *testing.T) {
	unknown := maps.Clone(harmless)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "holdfast ")
		reason, exempt := harmless[name]
		delete(unknown, name)
		flag := c.Flags().Lookup("dry-run")
		switch {
		case exempt && flag != nil:
			t.Errorf("holdfast %s has --dry-run, although %s", name, reason)
		case exempt || c.Name() == "help" || c.Name() == "completion":
		case c.HasSubCommands():
			for _, below := range c.Commands() {
				walk(below)
			}
		case flag == nil:
			t.Errorf("holdfast %s has no --dry-run, and nobody says that it changes nothing", name)
		case flag.Value.Type() != "bool":
			t.Errorf("holdfast %s: --dry-run is a %s", name, flag.Value.Type())
		}
	}
	walk(newRoot())
	for name := range unknown {
		t.Errorf("there is no command %q", name)
	}
}

// A demo that is only asked makes no directory, and refuses what the demo would refuse.
func TestDryRunOfADemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	would, err := demo.Would(demo.Options{Dir: dir, Nodes: 3})
	if err != nil || !strings.Contains(would, "would start") {
		t.Errorf("got %q, %v", would, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made: %v", dir, err)
	}
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
	if _, err := demo.Would(demo.Options{Dir: dir, Clean: true}); err == nil || !strings.Contains(err.Error(), "no demo made it") {
		t.Errorf("another's directory: got %v", err)
	}
}
