package health

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/findings.md")

const page = "../../docs/findings.md"

// docs/findings.md has each kind of finding, as the code has it.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Findings

What is wrong with a cluster is found in one place, and shown by ` + "`holdfast status`, `holdfast status --why`, `holdfast doctor`, `/readyz?verbose`" + `
and the series ` + "`holdfast_finding{code,severity}`" + `. Each finding has a code, which never changes, and a severity:

* **info**: worth knowing; nothing is to be done.
* **warning**: to be looked at in working hours. A cluster with warnings is healthy.
* **degraded**: the cluster serves, and something that it relies on is missing or fails. ` + "`holdfast status`" + ` exits with 1.
* **critical**: the cluster does not serve, or will not for long.

Whether there is a quorum is what raft tells the members. A node that the gossip does not show is a warning while raft is connected to its
member. This page is made from the code by a test; the severity is the usual one, and a finding may have another where the text says so. What is marked with a star takes a
look at all nodes or at the whole store: status or doctor shows it, and no node has a series of it.
`)
	for _, area := range append([]string{""}, areas...) {
		title := area
		if area == "" {
			title = "any"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| code | severity | meaning | cause | what to do |\n|---|---|---|---|---|\n", strings.ToUpper(title[:1])+title[1:])
		for _, k := range Kinds {
			if k.Area == area {
				star := ""
				if !k.Local() {
					star = "*"
				}
				fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s | %s |\n", k.Code, star, k.Severity, k.Meaning, k.Cause, k.Do)
			}
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the code says (%v): run `go test ./embedded/health -run TestTable -args -update`", page, err)
	}
}

// Each kind is whole, and there is one of each.
func TestKinds(t *testing.T) {
	seen := map[Code]bool{}
	for _, k := range Kinds {
		if seen[k.Code] {
			t.Errorf("%s is there twice", k.Code)
		}
		seen[k.Code] = true
		if k.Severity.rank() < 0 || k.Meaning == "" || k.Cause == "" || k.Do == "" {
			t.Errorf("%s is not whole: %+v", k.Code, k)
		}
		if k.Area != "" && !slices.Contains(areas, k.Area) {
			t.Errorf("%s has the area %s, which is none", k.Code, k.Area)
		}
	}
}
