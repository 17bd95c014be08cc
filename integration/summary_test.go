package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	all := map[string]map[string]measurement{
		"BenchmarkPut/TLS": {
			"put/s":  {measured: 1100, peer: 1000, spread: []float64{1.2, 1.05}},
			"p99-ms": {measured: 9.6, peer: 10, spread: []float64{0.96}},
		},
		"BenchmarkLeaderKill": {"gap-ms": {measured: 190, peer: 900, spread: []float64{0.21}}},
		"BenchmarkNodeLost":   {"serving-ms": {measured: 3500, peer: math.NaN(), spread: []float64{3400, 3600}}},
		"BenchmarkIdle": {
			"cpu-s/minute": {measured: 0.5, peer: 0.2, spread: []float64{2.5}},
			"resident-MB":  {measured: 60, peer: 30, spread: []float64{2}},
		},
	}
	rows, err := summary(all)
	must(t, err)
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.Join(r, "|"))
	}
	for _, want := range []string{
		"puts over TLS|1100|put/s|1000|etcd|1.10|1.05 to 1.2|≥ 1.1 × peer|yes",
		"puts over TLS, p99|9.6|p99-ms|10|etcd|0.96|0.96 to 0.96|≤ 0.95 × peer|NO",
		"leader killed: longest gap|190|gap-ms|900|etcd|0.21|0.21 to 0.21|≤ 200, ≤ 0.2 × peer|NO", // one of the two bounds
		"node lost: its slot is served|3500|serving-ms|-||-|3400 to 3600|≤ 1500|NO",
		"idle: processor|0.5|cpu-s/minute|0.2|etcd|2.50|2.5 to 2.5|≤ peer + 0.3|yes",
		"idle: memory|60|resident-MB|30|etcd|2.00|2 to 2|≤ peer + 26.2|NO",
		"linearizable reads over TLS|-|get/s|-|etcd|-|-|≥ 1.1 × peer|not measured",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no row %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

// A benchmark that did not run is missing in the summary. One that ran without measuring its promise is an error.
func TestSummaryOfNothing(t *testing.T) {
	var out strings.Builder
	if err := summarize(&out, nil); err != nil || out.Len() > 0 {
		t.Errorf("got %q, %v, want nothing", out.String(), err)
	}
	wrong := map[string]map[string]measurement{"BenchmarkPut/TLS": {"puts": {}}}
	if err := summarize(&out, wrong); err == nil || !strings.Contains(err.Error(), "put/s") {
		t.Errorf("got %v, want an error about put/s", err)
	}
}

func TestRecord(t *testing.T) {
	defer delete(measurements, "test")
	record("test", "a", []float64{1, 2, 30}, []float64{2, 8, 10})
	if m := measurements["test"]["a"]; m.measured != 2 || m.peer != 8 || !slices.Equal(m.spread, []float64{0.5, 0.25, 3}) {
		t.Errorf("got %+v", m)
	}
	record("test", "b", []float64{1, 2, 30}, nil)
	if m := measurements["test"]["b"]; m.measured != 2 || !math.IsNaN(m.peer) || !slices.Equal(m.spread, []float64{1, 2, 30}) {
		t.Errorf("got %+v", m)
	}
}

// A bound on a ratio is not met without a rival.
func TestBoundWithoutPeer(t *testing.T) {
	alone := measurement{measured: 1, peer: math.NaN()}
	for _, b := range []bound{most(ratio, 2), least(ratio, 0), most(beyond, 2)} {
		if b.met(alone) {
			t.Errorf("%v is met without a peer", b)
		}
	}
	if !most(absolute, 1).met(alone) {
		t.Error("an absolute bound needs no peer")
	}
}

// Every promise names an existing benchmark.
func TestPromisesAreMeasured(t *testing.T) {
	files, err := filepath.Glob("bench_*_test.go")
	must(t, err)
	var benchmarks []string
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				benchmarks = append(benchmarks, fn.Name.Name)
			}
		}
	}
	for _, p := range promises {
		name, _, _ := strings.Cut(p.benchmark, "/")
		if !slices.Contains(benchmarks, "Benchmark"+name) {
			t.Errorf("%s: there is no Benchmark%s", p.name, name)
		}
		if len(p.bounds) == 0 {
			t.Errorf("%s: nothing is promised", p.name)
		}
	}
}
