package faults

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/integration"
	"holdfast/integration/tier"
)

var (
	seed   = flag.Uint64("seed", 0, "run this seed alone, for as long as -length says")
	length = flag.Duration("length", 20*time.Second, "of the faults of one run")
	soak   = flag.Duration("soak", 0, "run random seeds for so long")
	only   = flag.String("only", "", "draw only these kinds of faults: kill,split,...")
	check  = flag.String("check", "", "check the history in the directory of a run's artefacts, and run nothing")
)

// seeds are the seeds of the daily runs: together they draw every kind of fault.
var seeds = []uint64{1, 31, 174}

// binary is the holdfast under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hf-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if !testing.Short() && os.Geteuid() == 0 && *check == "" {
		if binary, err = integration.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// real begins a test against real nodes.
func real(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs of real processes under faults")
	}
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces, loop devices and mounts need root")
	}
}

func kinds(t *testing.T) []Kind {
	t.Helper()
	if *only == "" {
		return Kinds
	}
	var all []Kind
	for name := range strings.SplitSeq(*only, ",") {
		all = append(all, Kind(name))
	}
	return all
}

// logger writes the log messages of etcd's packages to a file beside the artefacts, because there are many.
func logger(t *testing.T, path string) *zap.Logger {
	t.Helper()
	c := zap.NewDevelopmentConfig()
	c.OutputPaths = []string{path}
	lg, err := c.Build()
	if err != nil {
		t.Fatal(err)
	}
	return lg
}

// nothingStays checks, when everything else has ended, that the site has left nothing in a directory.
func nothingStays(t *testing.T, dir *string) {
	t.Cleanup(func() {
		var left []string
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, *dir) {
				left = append(left, "mount "+line)
			}
		}
		for pattern, what := range map[string]string{"/proc/[0-9]*/cmdline": "process", "/sys/block/loop*/loop/backing_file": "loop device"} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Error(err)
			}
			for _, file := range found {
				if content, err := os.ReadFile(file); err == nil && strings.Contains(string(content), *dir) {
					left = append(left, what+" "+file)
				}
			}
		}
		if len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// shortest is the length of the shortest run that proves something.
const shortest = 5 * time.Second

// run plays the schedule of a seed and checks the history. If the checker cannot decide, run plays the schedule again
// for half as long, with half as many requests whose outcome is unknown.
func run(t *testing.T, seed uint64) {
	for l := *length; ; l /= 2 {
		if l < shortest && l != *length {
			t.Fatalf("nothing is proven: %v, not even of %s", ErrUndecided, 2*l)
		}
		decided := true
		if !t.Run(l.String(), func(t *testing.T) { decided = play(t, seed, l) }) || decided {
			return
		}
	}
}

// play plays the schedule of a seed for the given time, and reports whether the checker could decide on the history.
func play(t *testing.T, seed uint64, length time.Duration) (decided bool) {
	lg := logger(t, filepath.Join(t.TempDir(), "checker.log"))
	s := Draw(seed, length, kinds(t))
	replay := fmt.Sprintf("go test ./integration/faults -run TestFaultsUnderChecker -count=1 -v -args -seed %d -length %s", seed, length)
	if *only != "" {
		replay += " -only " + *only
	}
	t.Logf("%s traffic; to see this run again: %s", s.Traffic, replay)
	dir := "there is no such directory yet"
	nothingStays(t, &dir)
	r := Found(t, binary, lg, volumeSize)
	dir = filepath.Dir(r.Dir)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("artefacts: %s; to see this run again: %s; to check the history again: go test ./integration/faults -run TestRecorded -count=1 -v -args -check %s",
				r.Dir, replay, filepath.Join(r.Dir, "record"))
		}
	})
	r.Play(s)
	began := time.Now()
	h, err := Load(lg, filepath.Join(r.Dir, "record"))
	if err != nil {
		t.Fatal(err)
	}
	err = h.Check(lg)
	if errors.Is(err, ErrUndecided) {
		r.say("%d persisted requests: %v", len(h.Persisted), err)
		return false
	}
	if err != nil {
		t.Errorf("the history is impossible: %v", err)
	}
	r.say("%d persisted requests checked in %s", len(h.Persisted), time.Since(began).Round(time.Millisecond))
	return true
}

// Everything goes wrong, under traffic that etcd's own checker follows: what clients saw was possible at all times.
func TestFaultsUnderChecker(t *testing.T) {
	real(t)
	all := []uint64{*seed}
	if *seed == 0 {
		all = tier.Share(t, len(seeds), seeds)
	}
	for _, seed := range all {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, seed) })
	}
}

// The same with other seeds each time, for as long as one likes.
func TestSoak(t *testing.T) {
	real(t)
	if *soak == 0 {
		t.Skip("no -soak; make soak sets it")
	}
	for began := time.Now(); time.Since(began) < *soak; {
		seed := 1 + rand.Uint64N(1<<32)
		switch seed % 6 {
		case 0, 1, 2, 3:
			t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, seed) })
		case 4:
			t.Run(fmt.Sprintf("%s %d", endRestore, seed), func(t *testing.T) { generations(t, seed, endRestore) })
		default:
			t.Run(fmt.Sprintf("%s %d", endRecover, seed), func(t *testing.T) { generations(t, seed, endRecover) })
		}
	}
}

// Recorded histories can be checked again.
func TestRecorded(t *testing.T) {
	if *check == "" {
		t.Skip("no -check")
	}
	lg := zap.NewExample()
	h, err := Load(lg, *check)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(lg); err != nil {
		t.Fatal(err)
	}
}
