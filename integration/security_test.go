package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that docs/security.md names exists.
func TestPromisesAreTried(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	must(t, err)
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	must(t, err)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("docs/security.md names %d tests: is the table of promises there?", len(named))
	}
	for _, attack := range []string{"forged", "replayed", "foreign", "oversized", "slow", "half-open", "expired", "wrong role"} {
		row := regexp.MustCompile(`(?m)^\| ` + attack + ` \|.*$`).FindString(string(text))
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if len(cells) != 6 {
			t.Fatalf("docs/security.md says of %s attacks %q: want the gossip, the peers' port, control, the store and metrics", attack, row)
		}
		for i, cell := range cells[1:] {
			if !strings.Contains(cell, "`Test") && !(i == 4 && strings.TrimSpace(cell) == "open to all") {
				t.Errorf("docs/security.md names no test of %s attacks in column %d", attack, i+1)
			}
		}
	}
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("docs/security.md names %s, which does not exist", m[1])
		}
	}
}
