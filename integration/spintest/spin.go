// Package spintest checks variants of a model with spin in a test: that the protocol holds, and that spin finds the
// error in each mutant.
//
// A variant is a promela file with definitions. An incomplete search is an error, not a verdict. Without spin and a C
// compiler the test is skipped, but in make prove it fails. The package knows nothing about the protocols.
package spintest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/integration/tier"
)

// The verdicts of a search.
const (
	Holds    = "ok"
	Violated = "violation"
)

// Variant is a model with definitions.
type Variant struct {
	Name string
	What string
	File string
	Defs string // -D of each, separated by spaces
	Want string // Holds or Violated
	Long bool   // only in make prove
}

// Check searches the variants in parallel, and prints a table of the verdicts.
func Check(t *testing.T, variants []Variant) {
	t.Helper()
	if testing.Short() {
		t.Skip("searches for half a minute")
	}
	for _, program := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			if tier.All() {
				t.Fatalf("%s is missing, so nothing is checked: install spin, gcc and libc6-dev", program)
			}
			t.Skipf("%s is missing: install spin, gcc and libc6-dev", program)
		}
	}
	const row = "%-7s %-44s %-10s %-10s %9v %8s %8s\n"
	rows := make([]string, len(variants))
	searched := map[Variant]bool{}
	for _, v := range tier.Share(t, 4, variants) {
		searched[v] = tier.All() || !v.Long
	}
	t.Run("variants", func(t *testing.T) {
		for i, v := range variants {
			if !searched[v] {
				continue
			}
			t.Run(v.Name+"_"+strings.ReplaceAll(v.Defs, " ", "_"), func(t *testing.T) {
				t.Parallel()
				found, err := search(t.Context(), t.TempDir(), v)
				if err != nil {
					t.Fatal(err)
				}
				took := fmt.Sprintf("%.1f", found.took.Seconds())
				rows[i] = fmt.Sprintf(row, v.Name, v.What, v.Want, found.verdict, found.states, took, found.memory)
				if found.verdict != v.Want {
					t.Errorf("%s: got %s, want %s\n%s", v.What, found.verdict, v.Want, found.trail)
				}
			})
		}
	})
	fmt.Printf(row+"%s", "", "", "expected", "found", "states", "seconds", "MB", strings.Join(rows, ""))
}

type result struct {
	verdict string
	states  string
	memory  string        // MB
	took    time.Duration // of the processor
	trail   string        // the end of the counterexample
}

var (
	errorCount = regexp.MustCompile(`depth reached \d+, errors: (\d+)`)
	stateCount = regexp.MustCompile(`(\d+) states, stored`)
	memoryUsed = regexp.MustCompile(`([\d.]+)\s+total actual memory usage`)
)

// search makes the verifier of a variant in dir with spin, and runs it.
func search(ctx context.Context, dir string, v Variant) (result, error) {
	src, err := os.ReadFile(v.File)
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "model.pml"), src, 0o644); err != nil {
		return result{}, err
	}
	var args []string
	for d := range strings.FieldsSeq(v.Defs) {
		args = append(args, "-D"+d)
	}
	if _, _, err := run(ctx, dir, "spin", append([]string{"-a"}, append(args, "model.pml")...)...); err != nil {
		return result{}, err
	}
	optimise := "-O2"
	if v.Want == Violated {
		optimise = "-O0" // the violation is found so soon that compiling takes longer
	}
	// -w: compilers warn about accesses to the arrays in spin's code.
	if _, _, err := run(ctx, dir, "cc", "-w", optimise, "-DSAFETY", "-DMEMLIM=2000", "-o", "pan", "pan.c"); err != nil {
		return result{}, err
	}
	out, took, err := run(ctx, dir, "./pan", "-n", "-m500000")
	if err != nil {
		return result{}, err
	}
	r := result{took: took, states: group(stateCount, out), memory: group(memoryUsed, out)}
	// An incomplete search without an error proves nothing.
	switch errors := group(errorCount, out); {
	case errors == "0" && !strings.Contains(out, "Search not completed") && !strings.Contains(out, "depth too small"):
		r.verdict = Holds
	case errors != "0" && strings.Contains(out, "assertion violated"):
		r.verdict = Violated
		if v.Want == Holds {
			trail, _, err := run(ctx, dir, "spin", append([]string{"-t", "-p"}, append(args, "model.pml")...)...)
			if err != nil {
				return r, err
			}
			r.trail = tail(trail, 60)
		}
	default:
		return r, fmt.Errorf("the search has come to no verdict:\n%s", out)
	}
	return r, nil
}

// run runs a program in dir and returns what it prints, and the processor time it took.
func run(ctx context.Context, dir, program string, args ...string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func group(re *regexp.Regexp, text string) string {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
