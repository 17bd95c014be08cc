package integration_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// The benchmarks compare three holdfast processes with three processes of plain etcd, of the same version and
// compiler, on the same disk, with the same settings. They print the measurements and the ratio holdfast / etcd. Both
// clusters run all the time, but they are measured in turns within one run, so that other load on the machine affects
// both. The benchmarks assert nothing: docs/benchmarks.md says how to read the figures.

// The kinds of clusters that are compared. They are also the keys of a duel's trials.
const (
	kindHoldfast = "holdfast"
	kindEtcd     = "etcd"
)

// rounds returns how often each kind is measured: count times, or with -short only to see that the benchmark works.
func rounds(count int) int {
	if testing.Short() {
		return 2
	}
	return count
}

// databases are the sizes of the databases that are saved and restored, in MiB. etcd's quota is 2 GiB unless it is
// set, and etcd advises at most 8.
var databases = []int64{256, 1024, 2048, 8192}

// roundsOf returns how many rounds to measure with a database of this size, or skips the benchmark: with -short, what
// takes minutes is not measured.
func roundsOf(b *testing.B, mib int64, count int) int {
	switch {
	case mib > 256 && testing.Short():
		b.Skip("takes minutes")
	case mib > 1024:
		return 1
	}
	return rounds(count)
}

// duel collects the trials of both kinds and prints each when it is done. The whole takes minutes, and the testing
// package would cut off the output of b.Log after ten lines.
type duel struct {
	b       *testing.B
	columns []string               // the measured values with their units, which are names of metrics as well
	trials  map[string][][]float64 // by kind, trial and column
}

func newDuel(b *testing.B, columns ...string) *duel {
	fmt.Printf("\n== %s, load average %s\n%-6s %-9s", b.Name(), loadAverage(), "round", "kind")
	for _, c := range columns {
		fmt.Printf(" %15s", c)
	}
	fmt.Println()
	return &duel{b: b, columns: columns, trials: map[string][][]float64{}}
}

// fight measures both rivals count times. They take turns in going first, so that neither always finds the disk as the
// other one left it.
func (d *duel) fight(count int, rivals []*rival, measure func(*rival) []float64) {
	for range count {
		for _, r := range rivals {
			d.add(r.kind, measure(r))
		}
		slices.Reverse(rivals)
	}
}

// add adds the values of one kind, in the order of the columns.
func (d *duel) add(kind string, trial []float64) {
	d.trials[kind] = append(d.trials[kind], trial)
	row(fmt.Sprint(len(d.trials[kind])), kind, trial)
}

func row(name, kind string, values []float64) {
	fmt.Printf("%-6s %-9s", name, kind)
	for _, v := range values {
		if finite(v) {
			fmt.Printf(" %15.3f", v)
		} else {
			fmt.Printf(" %15s", "-")
		}
	}
	fmt.Println()
}

// finite is false for a ratio to nothing.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// report prints the medians and the ratio holdfast / etcd: of the medians, and the median, the lowest and the highest
// of the rounds. On a machine with a changing load, the median of the rounds is the most reliable. The medians and the
// ratio also go to the testing package.
func (d *duel) report() {
	var ours, theirs, ratio, middle, lowest, highest []float64
	for i, name := range d.columns {
		h, e := d.column(kindHoldfast, i), d.column(kindEtcd, i)
		record(d.b.Name(), name, h, e)
		var ratios []float64
		for round := range h {
			ratios = append(ratios, h[round]/e[round])
		}
		ours, theirs = append(ours, median(h)), append(theirs, median(e))
		ratio = append(ratio, ours[i]/theirs[i])
		middle = append(middle, median(ratios))
		lowest, highest = append(lowest, slices.Min(ratios)), append(highest, slices.Max(ratios))
		d.b.ReportMetric(ours[i], kindHoldfast+"-"+name)
		d.b.ReportMetric(theirs[i], kindEtcd+"-"+name)
		if finite(middle[i]) {
			d.b.ReportMetric(middle[i], "ratio-"+name)
		}
	}
	row("median", kindHoldfast, ours)
	row("median", kindEtcd, theirs)
	row("ratio", "medians", ratio)
	row("ratio", "median", middle)
	row("ratio", "lowest", lowest)
	row("ratio", "highest", highest)
	fmt.Printf("load average %s\n", loadAverage())
	d.b.ReportMetric(0, "ns/op") // the total time is meaningless
}

func (d *duel) column(kind string, i int) []float64 {
	var values []float64
	for _, trial := range d.trials[kind] {
		values = append(values, trial[i])
	}
	return values
}

// median returns the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// loadAverage returns Linux's load averages of 1, 5 and 15 minutes.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
