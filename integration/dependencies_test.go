//go:build !etcd36

package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dependency is a row of the table in docs/dependencies.md.
type dependency struct {
	module    string
	importers []string // packages of holdfast
}

// docs/dependencies.md lists exactly the requirements of go.mod.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "dependencies.md"))
	must(t, err)
	rows, problems := dependencies(string(text))
	for _, p := range problems {
		t.Error("docs/dependencies.md: ", p)
	}
	for _, p := range undocumented(rows, direct(t, "../go.mod"), listImports(t)) {
		t.Error("docs/dependencies.md: ", p)
	}
	second := direct(t, "../etcd36.mod")
	for _, m := range second {
		if !slices.ContainsFunc(rows, func(d dependency) bool { return d.module == m }) {
			t.Errorf("etcd36.mod asks for %s, which go.mod does not", m)
		}
	}
}

// dependencies reads the rows of the first table, and returns which of them are incomplete.
func dependencies(text string) (rows []dependency, problems []string) {
	_, text, _ = strings.Cut(text, "\n## Direct\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		module := strings.Trim(strings.TrimSpace(cells[0]), "`")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 5 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			problems = append(problems, module+": want five cells, none of them empty")
			continue
		}
		d := dependency{module: module}
		for p := range strings.SplitSeq(cells[2], ",") {
			if p = strings.TrimSpace(p); p != "tests" {
				d.importers = append(d.importers, p)
			}
		}
		rows = append(rows, d)
	}
	return rows, problems
}

// undocumented returns how the rows differ from the required modules and their importers.
func undocumented(rows []dependency, modules []string, imports map[string][]string) (problems []string) {
	for _, m := range modules {
		if !slices.ContainsFunc(rows, func(d dependency) bool { return d.module == m }) {
			problems = append(problems, m+" has no row: say why it is there, or do without it")
		}
	}
	for i, d := range rows {
		if !slices.Contains(modules, d.module) || slices.ContainsFunc(rows[:i], func(o dependency) bool { return o.module == d.module }) {
			problems = append(problems, d.module+" has a row, and go.mod does not ask for it, or it has two")
		}
		if used := users(d.module, modules, imports); len(d.importers) == 0 && len(used) > 0 {
			problems = append(problems, d.module+" is said to be the tests', but is imported by "+strings.Join(used, ", "))
		}
		for _, p := range d.importers {
			if !slices.Contains(users(d.module, modules, imports), p) {
				problems = append(problems, d.module+" is not imported by "+p)
			}
		}
	}
	return problems
}

// users returns the packages that import something of the module.
func users(module string, modules []string, imports map[string][]string) (all []string) {
	of := func(path string) (longest string) {
		for _, m := range modules {
			if (path == m || strings.HasPrefix(path, m+"/")) && len(m) > len(longest) {
				longest = m
			}
		}
		return longest
	}
	for p, paths := range imports {
		if slices.ContainsFunc(paths, func(i string) bool { return of(i) == module }) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// direct returns the modules that a module file requires directly.
func direct(t *testing.T, file string) (modules []string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "mod", "edit", "-json", file)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v\n%s", err, stderr.String())
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	must(t, json.Unmarshal(out, &mod))
	for _, r := range mod.Require {
		if !r.Indirect {
			modules = append(modules, r.Path)
		}
	}
	return modules
}

// The check finds each kind of difference.
func TestUndocumented(t *testing.T) {
	rows, problems := dependencies("# x\n\n## Direct\n\n| module | a |\n|---|---|\n| `m/a` | MIT | cmd, gossip | why | nothing |\n| `m/gone` | MIT | tests | why | nothing |\n" +
		"| `m/t` | MIT | tests | why | nothing |\n| `m/half` | MIT | | why | nothing |\n\n## Tools\n| `m/tool` | x | x | x | x |\n")
	if len(rows) != 3 || len(problems) != 1 || !strings.HasPrefix(problems[0], "m/half") {
		t.Fatalf("got %+v, %q", rows, problems)
	}
	got := undocumented(rows, []string{"m/a", "m/a/v2", "m/t", "m/new"}, map[string][]string{"cmd": {"m/a", "m/t/x"}, "gossip": {"m/a/v2/b"}})
	want := []string{"m/a/v2 has no row", "m/new has no row", "m/a is not imported by gossip", "m/gone has a row", "m/t is said to be the tests', but is imported by cmd"}
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Fatalf("want problems that begin with %q, got %q", want, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("want %d problems, got %q", len(want), got)
	}
}
