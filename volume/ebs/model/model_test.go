// Package model_test has spin check the models of the claim protocol, and that it finds what is wrong with
// their mutants. See README.md.
package model_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var n3 = flag.Bool("n3", false, "check also what takes longer, three nodes above all; without spin and a C compiler it is a failure then")

// What a search ends with.
const (
	holds    = "ok"
	violated = "violation"
)

// variant is a model put together by what is defined.
type variant struct {
	name string
	what string
	file string
	n    int    // nodes
	defs string // -D of each
	want string
	long bool // only with -n3
}

// variants is the table: the protocol must hold, and everything else must be found. V, R and T are what is
// checked, M are mutants, L are limits that we know and live with, W are witnesses that something can happen.
var variants = []variant{
	{"V1", "attach decides, tags are havoc", "claim.pml", 2, "", holds, false},
	{"V1m", "with release and marker", "claim.pml", 2, "RELEASE MARK", holds, false},
	{"V3b", "takeover of stopped, bounded", "claim.pml", 2, "TAKESTOP BOUNDED TAGREG", holds, false},
	{"V3h", "V3b, tags are havoc", "claim.pml", 2, "TAKESTOP BOUNDED", holds, false},
	{"R1", "release with journal and repeats", "claim.pml", 2, "RELEASE JOURNAL", holds, false},
	{"T1", "two volumes, waits for a time", "claim2.pml", 2, "EXPIRE LOST=1", holds, false},
	{"T2", "two volumes, waits until settled", "claim2.pml", 2, "SPREAD", holds, false},

	{"M-V1r", "release without marker", "claim.pml", 2, "RELEASE", violated, false},
	{"M-V2", "the tag is the lock", "claim.pml", 2, "NOARB", violated, false},
	{"M-V2t", "the tag, settled and converging", "claim.pml", 2, "NOARB TAGREG", violated, false},
	{"M-V3", "takeover of stopped, unbounded", "claim.pml", 2, "TAKESTOP", violated, false},
	{"M-V4", "detach of a running holder", "claim.pml", 2, "FORCE", violated, false},
	{"M-V5b", "adopts what a stale read shows", "claim.pml", 2, "RELEASE MARK STALEADOPT", violated, false},
	{"M-R2", "journal keeps from adopting only", "claim.pml", 2, "RELEASE JOURNAL ADOPTONLY", violated, false},
	{"M-R3", "any answer ends the entry", "claim.pml", 2, "RELEASE JOURNAL ANYANSWER", violated, false},
	{"M-R4", "a refused repeat ends the entry", "claim.pml", 2, "RELEASE JOURNAL REFUSEDENDS", violated, false},
	{"M-R5", "a restart loses the journal", "claim.pml", 2, "RELEASE JOURNAL FORGETFUL", violated, false},
	{"M-T1", "mounts whatever shows up", "claim2.pml", 2, "EXPIRE MOUNTALL", violated, false},
	{"M-T2", "surplus detached while mounted", "claim2.pml", 2, "EXPIRE NOUNMOUNT", violated, false},
	{"M-T3", "surplus detached, not journaled", "claim2.pml", 2, "EXPIRE NOJOURNAL", violated, false},
	{"M-T4", "goes on while not settled", "claim2.pml", 2, "SPREAD GOON", violated, false},

	{"L-V3z", "V3b, the detach comes late", "claim.pml", 2, "TAKESTOP BOUNDED TAGREG LATESEIZE", violated, false},
	{"L-T1", "T1 may be given two volumes", "claim2.pml", 2, "EXPIRE SPREAD", violated, false},

	{"W-V1m", "another node serves after one", "claim.pml", 2, "RELEASE MARK WITNESS", violated, false},
	{"W-R1", "another node serves, with journal", "claim.pml", 2, "RELEASE JOURNAL WITNESS", violated, false},
	{"W-T1", "serves after giving up surplus", "claim2.pml", 2, "EXPIRE WITNESS", violated, false},

	{"T1", "T1, two lost answers", "claim2.pml", 2, "EXPIRE LOST=2", holds, true},
	{"V1", "attach decides, tags are havoc", "claim.pml", 3, "", holds, true},
	{"V1m", "with release and marker", "claim.pml", 3, "RELEASE MARK", holds, true},
	{"M-V1r", "release without marker", "claim.pml", 3, "RELEASE", violated, true},
	{"M-V2", "the tag is the lock", "claim.pml", 3, "NOARB", violated, true},
	{"M-V2t", "the tag, settled and converging", "claim.pml", 3, "NOARB TAGREG", violated, true},
	{"M-V3", "takeover of stopped, unbounded", "claim.pml", 3, "TAKESTOP", violated, true},
	{"M-V4", "detach of a running holder", "claim.pml", 3, "FORCE", violated, true},
	{"M-V5b", "adopts what a stale read shows", "claim.pml", 3, "RELEASE MARK STALEADOPT", violated, true},
}

func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("searches for half a minute")
	}
	for _, program := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			if *n3 {
				t.Fatalf("%s is missing, so nothing is checked: install spin, gcc and libc6-dev", program)
			}
			t.Skipf("%s is missing: install spin, gcc and libc6-dev", program)
		}
	}
	const row = "%-6s %-33s %-2v %-10s %-10s %9v %8s %8s\n"
	rows := make([]string, len(variants))
	t.Run("variants", func(t *testing.T) {
		for i, v := range variants {
			if v.long && !*n3 {
				continue
			}
			t.Run(fmt.Sprintf("%s_%d_%s", v.name, v.n, strings.ReplaceAll(v.defs, " ", "_")), func(t *testing.T) {
				t.Parallel()
				found, err := search(t.Context(), t.TempDir(), v)
				if err != nil {
					t.Fatal(err)
				}
				rows[i] = fmt.Sprintf(row, v.name, v.what, v.n, v.want, found.verdict, found.states, fmt.Sprintf("%.1f", found.took.Seconds()), found.memory)
				if found.verdict != v.want {
					t.Errorf("%s: got %s, want %s\n%s", v.what, found.verdict, v.want, found.trail)
				}
			})
		}
	})
	fmt.Printf(row+"%s", "", "", "N", "expected", "found", "states", "seconds", "MB", strings.Join(rows, ""))
}

type result struct {
	verdict string
	states  string
	memory  string // MB
	took    time.Duration
	trail   string // the end of the counterexample
}

var (
	errorCount = regexp.MustCompile(`depth reached \d+, errors: (\d+)`)
	stateCount = regexp.MustCompile(`(\d+) states, stored`)
	memoryUsed = regexp.MustCompile(`([\d.]+)\s+total actual memory usage`)
)

// search has spin make the verifier of a variant in dir, and runs it.
func search(ctx context.Context, dir string, v variant) (result, error) {
	src, err := os.ReadFile(v.file)
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "model.pml"), src, 0o644); err != nil {
		return result{}, err
	}
	args := []string{fmt.Sprintf("-DN=%d", v.n)}
	for _, d := range strings.Fields(v.defs) {
		args = append(args, "-D"+d)
	}
	if _, err := run(ctx, dir, "spin", append([]string{"-a"}, append(args, "model.pml")...)...); err != nil {
		return result{}, err
	}
	optimise := "-O2"
	if v.want == violated {
		optimise = "-O0" // it is found so soon that compiling takes longer
	}
	// -w: spin declares arrays as short as they are, and compilers suspect what it does with them.
	if _, err := run(ctx, dir, "cc", "-w", optimise, "-DSAFETY", "-DMEMLIM=2000", "-o", "pan", "pan.c"); err != nil {
		return result{}, err
	}
	start := time.Now()
	out, err := run(ctx, dir, "./pan", "-n", "-m500000")
	if err != nil {
		return result{}, err
	}
	r := result{took: time.Since(start), states: group(stateCount, out), memory: group(memoryUsed, out)}
	// A search that was cut short has found nothing, which is not the same as that there is nothing.
	switch errors := group(errorCount, out); {
	case errors == "0" && !strings.Contains(out, "Search not completed") && !strings.Contains(out, "max search depth too small"):
		r.verdict = holds
	case errors != "0" && strings.Contains(out, "assertion violated"):
		r.verdict = violated
		if v.want == holds {
			trail, err := run(ctx, dir, "spin", append([]string{"-t", "-p"}, append(args, "model.pml")...)...)
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

// run runs a program in dir and returns what it prints.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
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
