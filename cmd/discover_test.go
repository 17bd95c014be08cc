package cmd

import (
	"strings"
	"testing"
)

func TestDiscoverOptions(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "nothing to keep up to date",
		"--endpoints e --format yaml":        "--format: must be lines or json",
		"--dns localhost:53":                 "--dns: must be an IP address and port",
		"--dns 127.0.0.1:0 --once":           "--once",
		"--hosts h --once --wait 0s":         "--wait: must be above 0s",
		"--hosts h --cluster.name Not_a_one": "cluster.name: must be",
	} {
		c := newRoot()
		c.SetArgs(append([]string{"discover"}, strings.Fields(args)...))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("discover %s: got %v, want %q", args, err, want)
		}
	}
}
