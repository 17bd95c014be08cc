package integration_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// testBinary names an existing binary of holdfast.
const testBinary = "HOLDFAST_TEST_BINARY"

// binary builds holdfast when the first story needs it.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(testBinary); path != "" {
		return path, nil
	}
	return integration.Build(work)
})

// work is a directory for the binary.
var work string

func TestMain(m *testing.M) {
	if names := os.Getenv(plainNames); names != "" {
		if err := runPlainEtcd(names, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(maxStories)); err != nil { // the default is the number of cores
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var err error
	if work, err = os.MkdirTemp("", "hf-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(work)
	if err := summarize(os.Stdout, measurements); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// story begins a story: it waits until the story may run.
func story(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a story against real processes")
	}
	t.Parallel()
	seats.take()
	t.Cleanup(seats.leave)
}

// patience is the limit for what should take seconds.
const patience = 30 * time.Second

// cluster makes a cluster of the binary under test.
func cluster(t *testing.T, o integration.Options) *integration.Cluster {
	t.Helper()
	path, err := binary()
	must(t, err)
	c := integration.New(t, path, o)
	t.Cleanup(func() { // before the nodes end
		if t.Failed() || t.Skipped() || len(c.Running()) == 0 || slices.ContainsFunc(c.Running(), (*integration.Node).Paused) {
			return
		}
		agree(t, c, "all views agree at the end of the story", func(health.ClusterStatus) error { return nil })
	})
	return c
}

// founded starts a cluster and waits until it serves.
func founded(t *testing.T, o integration.Options) *integration.Cluster {
	t.Helper()
	c := cluster(t, o)
	c.Start()
	c.Serving()
	return c
}
