// Package mutanttest proves that the tests of a package test its guards: without a guard, a named test must fail with a
// named message.
//
// All mutants are built into one test binary. A function that a mutant changes gets the changed body beside its own,
// and a variable chooses between them. A mutant that changes something outside a function's body, or a function with
// labels, is built separately. The package knows nothing about the packages under test.
package mutanttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"holdfast/integration/tier"
)

// Mutant is a change that disables a guard: the text Old, which File must contain once, becomes New.
type Mutant struct {
	Name string
	File string
	Old  string
	New  string
	Test string   // a regular expression of the tests that must fail
	Says string   // a regular expression of their message; empty: the mutant is harmless, and they must pass
	Args []string // more arguments of the test binary
}

// chosen is the environment variable with the number of the mutant that a test binary runs.
const chosen = "HOLDFAST_MUTANT"

// shares is in how many days CI runs all mutants of a package.
const shares = 3

// Check builds the package in the current directory with the mutants of this run, a share of them in CI, and runs the
// test of each.
func Check(t *testing.T, mutants []Mutant) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the package with its mutants, and runs a test for each")
	}
	Apply(t, mutants)
	if t.Failed() {
		return
	}
	mutants = tier.Share(t, shares, mutants)
	b := newBuild(t)
	var apart []int
	for i, m := range mutants {
		if !b.add(i+1, m) {
			apart = append(apart, i)
		}
	}
	joint := b.compile()
	binaries := make([]string, len(mutants))
	for i := range mutants {
		binaries[i] = joint
	}
	for _, i := range apart {
		m := mutants[i]
		alone := newBuild(t)
		alone.text[m.File] = strings.Replace(read(t, m.File), m.Old, m.New, 1)
		binaries[i] = alone.compile()
	}
	for i, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			out, err := run(t.Context(), binaries[i], i+1, m)
			said := regexp.MustCompile(m.Says).FindString(out)
			switch {
			case m.Says == "":
				if err != nil {
					t.Errorf("is not harmless:\n%s", out)
				}
			case err == nil:
				t.Errorf("survived: is the guard needed?")
			case said == "":
				t.Errorf("failed, but not with %s:\n%s", m.Says, out)
			default:
				t.Log(said)
			}
		})
	}
}

// Apply checks, without a build, that the source still contains the text of each mutant.
func Apply(t *testing.T, mutants []Mutant) {
	t.Helper()
	for _, m := range mutants {
		if n := strings.Count(read(t, m.File), m.Old); n != 1 {
			t.Errorf("%s: %s has the text %d times, want once: %s", m.Name, m.File, n, m.Old)
		}
	}
}

func run(ctx context.Context, binary string, number int, m Mutant) (string, error) {
	cmd := exec.CommandContext(ctx, binary,
		append([]string{"-test.run=^(" + m.Test + ")$", "-test.timeout=10m"}, m.Args...)...)
	cmd.Env = append(os.Environ(), chosen+"="+strconv.Itoa(number))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, file string) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// build is a test binary with files of the package replaced.
type build struct {
	t       *testing.T
	dir     string
	pkg     string
	text    map[string]string            // the new text of each replaced file
	inserts map[string]map[string]string // by file and function: the text to insert at the start of the body
}

func newBuild(t *testing.T) *build {
	t.Helper()
	return &build{t: t, dir: t.TempDir(), text: map[string]string{}, inserts: map[string]map[string]string{}}
}

// add inserts the bodies that the mutant changes before the functions' own bodies. It returns false if the mutant must
// be built separately.
func (b *build) add(number int, m Mutant) bool {
	b.t.Helper()
	before := b.parse(m.File, read(b.t, m.File))
	after := b.parse(m.File, strings.Replace(before.text, m.Old, m.New, 1))
	if before.rest != after.rest {
		return false
	}
	changed := map[string]string{}
	for i, f := range before.functions {
		g := after.functions[i]
		if f.body == g.body {
			continue
		}
		if f.labels || g.labels {
			return false
		}
		end := ""
		if !f.results {
			end = "\nreturn"
		}
		// The line directives make the compiler name the mutant in errors, and keep all other line numbers.
		changed[f.name] = fmt.Sprintf("\nif mutantNow == %d {\n//line %s:1\n%s%s\n}\n//line %s:%d\n",
			number, strings.ReplaceAll(m.Name, " ", "-"), g.body, end, m.File, f.line)
	}
	b.pkg = before.pkg
	if b.inserts[m.File] == nil {
		b.inserts[m.File] = map[string]string{}
	}
	for name, text := range changed {
		b.inserts[m.File][name] += text
	}
	return true
}

// compile returns the path of the test binary.
func (b *build) compile() string {
	b.t.Helper()
	for file, inserts := range b.inserts {
		var out strings.Builder
		p := b.parse(file, read(b.t, file))
		from := 0
		for _, f := range p.functions {
			out.WriteString(p.text[from:f.from] + inserts[f.name])
			from = f.from
		}
		b.text[file] = out.String() + p.text[from:]
	}
	if len(b.inserts) > 0 {
		b.text["mutant_now.go"] = fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
)

var mutantNow, _ = strconv.Atoi(os.Getenv(%q))
`, b.pkg, chosen)
	}
	replace := map[string]string{}
	for file, text := range b.text {
		path, err := filepath.Abs(file)
		if err != nil {
			b.t.Fatal(err)
		}
		replace[path] = filepath.Join(b.dir, file)
		b.write(file, []byte(text))
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("overlay.json", overlay)
	binary := filepath.Join(b.dir, "mutants.test")
	cmd := exec.CommandContext(b.t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-w",
		"-overlay="+filepath.Join(b.dir, "overlay.json"), "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func (b *build) write(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// source is a file of the package, its functions and the text around their bodies.
type source struct {
	text      string
	pkg       string
	functions []function
	rest      string
}

type function struct {
	name    string // unique in the file
	from    int    // where the body begins, behind its brace
	line    int
	body    string
	results bool
	labels  bool
}

func (b *build) parse(file, text string) source {
	b.t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		b.t.Fatal(err)
	}
	s := source{text: text, pkg: tree.Name.Name}
	var rest bytes.Buffer
	last := 0
	for i, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from, to := files.Position(f.Body.Lbrace).Offset+1, files.Position(f.Body.Rbrace).Offset
		found := function{
			name: strconv.Itoa(i), from: from, line: files.Position(f.Body.Lbrace).Line,
			body: text[from:to], results: f.Type.Results != nil,
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			_, label := n.(*ast.LabeledStmt)
			found.labels = found.labels || label
			return true
		})
		s.functions = append(s.functions, found)
		rest.WriteString(text[last:from])
		last = to
	}
	rest.WriteString(text[last:])
	s.rest = rest.String()
	return s
}
