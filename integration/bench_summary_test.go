package integration_test

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// measurement is the result of a benchmark for one column.
type measurement struct {
	measured float64   // the median of the rounds
	peer     float64   // the median of the rival; NaN if there is none
	spread   []float64 // of each round: the ratio or, without a rival, the value
}

// measurements are all measurements of this process, by the names of the benchmark and the column.
var measurements = map[string]map[string]measurement{}

// record keeps the values of a column, round by round, for the summary. peers is nil if there is no rival.
func record(benchmark, column string, values, peers []float64) {
	m := measurement{measured: median(values), peer: math.NaN(), spread: values}
	if peers != nil {
		m.peer, m.spread = median(peers), nil
		for i := range values {
			m.spread = append(m.spread, values[i]/peers[i])
		}
	}
	keep(benchmark, column, m)
}

// keep is record for a value that is summed up already.
func keep(benchmark, column string, m measurement) {
	if measurements[benchmark] == nil {
		measurements[benchmark] = map[string]measurement{}
	}
	measurements[benchmark][column] = m
}

// figure is the value that a bound limits.
type figure int

const (
	absolute figure = iota // the measured value
	ratio                  // measured / peer, of the medians
	beyond                 // measured - peer
)

// bound limits a figure from above or below. It is part of a promise.
type bound struct {
	of    figure
	least bool
	limit float64
}

func most(of figure, limit float64) bound  { return bound{of, false, limit} }
func least(of figure, limit float64) bound { return bound{of, true, limit} }

func (b bound) met(m measurement) bool {
	f := map[figure]float64{absolute: m.measured, ratio: m.measured / m.peer, beyond: m.measured - m.peer}[b.of]
	if b.least {
		return f >= b.limit
	}
	return f <= b.limit // false for NaN
}

func (b bound) String() string {
	return map[bool]string{false: "≤ ", true: "≥ "}[b.least] + map[figure]string{beyond: "peer + "}[b.of] +
		strconv.FormatFloat(b.limit, 'g', -1, 64) + map[figure]string{ratio: " × peer"}[b.of]
}

// promise is what holdfast should achieve.
type promise struct {
	name      string
	benchmark string // without "Benchmark"
	column    string
	peer      string // the name of the rival
	bounds    []bound
}

// promises are all promises that a benchmark measures, in the order of the summary.
var promises = []promise{
	{"puts over TLS", "Put/TLS", "put/s", "etcd", []bound{least(ratio, 1.1)}},
	{"puts over TLS, p99", "Put/TLS", "p99-ms", "etcd", []bound{most(ratio, 0.95)}},
	{"linearizable reads over TLS", "Get/TLS", "get/s", "etcd", []bound{least(ratio, 1.1)}},
	{"linearizable reads over TLS, p99", "Get/TLS", "p99-ms", "etcd", []bound{most(ratio, 0.95)}},
	{"puts without TLS", "Put/plain", "put/s", "etcd", []bound{least(ratio, 1.1)}},
	{"puts without TLS, p99", "Put/plain", "p99-ms", "etcd", []bound{most(ratio, 0.95)}},
	{"linearizable reads without TLS", "Get/plain", "get/s", "etcd", []bound{least(ratio, 1.1)}},
	{"linearizable reads without TLS, p99", "Get/plain", "p99-ms", "etcd", []bound{most(ratio, 0.95)}},
	{"idle: processor", "Idle", "cpu-s/minute", "etcd", []bound{most(beyond, 0.3)}}, // half a percent of a core
	{"idle: memory", "Idle", "resident-MB", "etcd", []bound{most(beyond, 26.2)}},    // 25 MiB
	{"leader killed: longest gap", "LeaderKill", "gap-ms", "etcd", []bound{most(absolute, 200), most(ratio, 0.2)}},
	{"leader's machine gone: longest gap", "LeaderGone", "gap-ms", "etcd", []bound{most(ratio, 0.6)}},
	{"leader paused: longest gap", "LeaderPaused", "gap-ms", "etcd", []bound{most(ratio, 0.6)}},
	{"leader's disk stalled: longest gap", "LeaderStalled", "gap-ms", "etcd", []bound{most(ratio, 0.6)}},
	{"elections where nobody died", "Elections", "elections", "etcd", []bound{most(beyond, 0)}},
	{"three blank nodes to a write on each", "Bootstrap", "serving-ms", "etcd", []bound{most(absolute, 400)}},
	{"node lost: its slot is served", "NodeLost", "serving-ms", "", []bound{most(absolute, 1500)}},
	{"disk lost: voter again", "DiskLost/0MiB", "serving-ms", "", []bound{most(absolute, 1000)}},
	{"resize 3 to 5", "Resize", "to-five-ms", "", []bound{most(absolute, 2000)}},
	{"recover, 27 s of waiting included", "Recover", "command-to-write-s", "", []bound{most(absolute, 29)}}, // 12 s for the beacon, 15 s for a leader (R18, R16)
	{"256 MiB saved", "Snapshot/256MiB/Copies", "save-s", "etcdctl", []bound{most(ratio, 0.4)}},
	{"256 MiB saved and verified", "Snapshot/256MiB/Copies", "verified-s", "etcdctl", []bound{most(ratio, 0.8)}},
	{"256 MiB saved: most memory, MiB", "Snapshot/256MiB/Copies", "verified-MiB", "etcdctl", []bound{most(absolute, 64)}},
	{"256 MiB: p99 of puts beside a save", "Snapshot/256MiB/Puts", "p99-ms", "alone", []bound{most(ratio, 2)}},
	{"1 GiB saved", "Snapshot/1024MiB/Copies", "save-s", "etcdctl", []bound{most(ratio, 0.4)}},
	{"1 GiB saved and verified", "Snapshot/1024MiB/Copies", "verified-s", "etcdctl", []bound{most(ratio, 0.8)}},
	{"1 GiB saved: most memory, MiB", "Snapshot/1024MiB/Copies", "verified-MiB", "etcdctl", []bound{most(absolute, 64)}},
	{"1 GiB: p99 of puts beside a save", "Snapshot/1024MiB/Puts", "p99-ms", "alone", []bound{most(ratio, 2)}},
	{"256 MiB restored and started", "Restore/256MiB", "total-s", "etcdutl", []bound{most(ratio, 0.6)}},
	{"1 GiB restored and started", "Restore/1024MiB", "total-s", "etcdutl", []bound{most(ratio, 0.6)}},
}

// summarize prints a table with a row for each promise, unless nothing was measured.
func summarize(w io.Writer, all map[string]map[string]measurement) error {
	if len(all) == 0 {
		return nil
	}
	rows, err := summary(all)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n== Summary, load average %s\n", loadAverage())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "promise\tmeasured\tunit\tpeer\t\tratio\tlowest to highest\tpromised\tmet")
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// summary returns the cells of each promise. It returns an error if a benchmark ran without measuring the column of a
// promise.
func summary(all map[string]map[string]measurement) (rows [][]string, err error) {
	for _, p := range promises {
		columns, ran := all["Benchmark"+p.benchmark]
		m, known := columns[p.column]
		switch {
		case known:
			rows = append(rows, cells(p, m))
		case ran:
			return nil, fmt.Errorf("%s measured no %s, which the summary is about", p.benchmark, p.column)
		default:
			rows = append(rows, []string{p.name, "-", p.column, "-", p.peer, "-", "-", promised(p), "not measured"})
		}
	}
	return rows, nil
}

// cells returns the cells of a promise that was measured.
func cells(p promise, m measurement) []string {
	number := func(v float64) string { return fmt.Sprintf("%.4g", v) }
	peer, against := "-", "-"
	if finite(m.peer) {
		peer = number(m.peer)
	}
	if r := m.measured / m.peer; finite(r) {
		against = fmt.Sprintf("%.2f", r)
	}
	met := "yes"
	if slices.ContainsFunc(p.bounds, func(b bound) bool { return !b.met(m) }) {
		met = "NO"
	}
	return []string{p.name, number(m.measured), p.column, peer, p.peer, against,
		number(slices.Min(m.spread)) + " to " + number(slices.Max(m.spread)), promised(p), met}
}

// promised returns the bounds of a promise as text.
func promised(p promise) string {
	var all []string
	for _, b := range p.bounds {
		all = append(all, b.String())
	}
	return strings.Join(all, ", ")
}
