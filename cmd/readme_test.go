package cmd

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"holdfast/cmd/config"
)

// The README's table of keys must know every key and no other: by its name, or with all below a section as section.…
// What it shows as the default of a single key, as code, must be it.
func TestREADMEKnowsEveryKey(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	must(t, err)
	_, table, found := strings.Cut(string(text), "| key | default | meaning |\n|---|---|---|\n")
	if !found {
		t.Fatal("README.md has no table of keys")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	code := regexp.MustCompile("`([^`]*)`")
	defaults, keys, known := config.Default(), config.Keys(), map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		names, values := code.FindAllStringSubmatch(cells[0], -1), code.FindAllStringSubmatch(cells[1], -1)
		for i, m := range names {
			section, all := strings.CutSuffix(m[1], "…")
			covered := 0
			for _, k := range keys {
				if k.Name != m[1] && !(all && strings.HasPrefix(k.Name, section)) {
					continue
				}
				covered++
				known[k.Name] = true
				got := strings.Trim(cells[1], "`")
				if len(values) == len(names) { // else it tells in words what is derived
					got = values[i][1]
				}
				if want := k.Text(&defaults); want != "" && want != "[]" && !all && got != want {
					t.Errorf("README.md says that the default of %s is %s, want %s", k.Name, got, want)
				}
			}
			if covered == 0 {
				t.Errorf("README.md has a key %s, which does not exist", m[1])
			}
		}
	}
	for _, k := range keys {
		if !known[k.Name] {
			t.Errorf("README.md does not have the key %s", k.Name)
		}
	}
}
