package health

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/findings.md lists each kind of finding under its area, with the code, severity and cure as in the code. Only
// that document says what a finding means and where it comes from.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, area := range append([]string{"any"}, areas...) {
		want = append(want, "## "+strings.ToUpper(area[:1])+area[1:])
		for _, k := range Kinds {
			if k.Area == area || k.Area == "" && area == "any" {
				star := map[bool]string{false: "*"}[k.Local()]
				want = append(want, fmt.Sprintf("`%s`%s | %s | %s", k.Code, star, k.Severity, k.Do))
			}
		}
	}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case strings.HasPrefix(line, "## "):
			got = append(got, line)
		case !strings.HasPrefix(line, "| `"):
		case len(cells) != 5 || slices.Contains(cells, ""):
			t.Errorf("%s: it must have a code, a severity, a meaning, a cause and a cure", line)
		default:
			got = append(got, fmt.Sprintf("%s | %s | %s", cells[0], cells[1], cells[4]))
		}
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("row %d of docs/findings.md:\ngot  %q\nwant %q", i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
}

// What documents call a finding is one, and alerts rest only on those of which nodes have series.
func TestCodesElsewhere(t *testing.T) {
	named := regexp.MustCompile("finding `([a-z-]+)`")
	in := regexp.MustCompile(`code=~?"([a-z|-]+)"`)
	for glob, of := range map[string]*regexp.Regexp{"../../docs/*.md": named,
		"../../deploy/prometheus/holdfast-*.yml": in} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range of.FindAllStringSubmatch(string(text), -1) {
				for code := range strings.SplitSeq(m[1], "|") {
					i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Code == Code(code) })
					if i < 0 || of == in && !Kinds[i].Local() {
						t.Errorf("%s: %s is no finding, or nodes have no series of it", file, code)
					}
				}
			}
		}
	}
}

// Each kind is complete and unique.
func TestKinds(t *testing.T) {
	seen := map[Code]bool{}
	for _, k := range Kinds {
		if seen[k.Code] {
			t.Errorf("%s is there twice", k.Code)
		}
		seen[k.Code] = true
		if k.Severity.rank() < 0 || k.Do == "" {
			t.Errorf("%s is not whole: %+v", k.Code, k)
		}
		if k.Area != "" && !slices.Contains(areas, k.Area) {
			t.Errorf("%s has the area %s, which is none", k.Code, k.Area)
		}
	}
}
