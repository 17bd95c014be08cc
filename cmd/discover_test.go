package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
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

// What the file says of listeners is meant for the node of the machine.
func TestSetHere(t *testing.T) {
	l := &config.Loaded{Origin: map[string]string{"a": "file config.yaml:3", "b": "flag --b", "c": "env HOLDFAST_C", "d": "derived from node.address", "e": "default"}}
	for key, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false, "e": false} {
		if got := setHere(l, key); got != want {
			t.Errorf("%s: got %t, want %t", l.Origin[key], got, want)
		}
	}
}

func TestStatusCountsObservers(t *testing.T) {
	var b bytes.Buffer
	if err := writeStatus(&b, health.ClusterStatus{Observers: []string{"x at 10.0.0.9", "y at 10.0.0.8"}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nobservers: 2\n") {
		t.Errorf("got %s", b.String())
	}
}
