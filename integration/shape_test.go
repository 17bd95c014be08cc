//go:build !etcd36

package integration_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits for the size of types. A larger type has more than one task.
const (
	maxMethods   = 30
	maxFields    = 15
	maxInterface = 7
)

// wide are the structs with more than maxFields fields, and the reason for each.
var wide = map[string]string{
	"cmd/etcdmanager.Options":        "each is a flag of etcd-manager",
	"cmd/node.node":                  "each is a part of the node, which is wired here",
	"cmd/takeover.Plan":              "a JSON answer",
	"embedded.Memberships":           "a list of members for each place in which an etcd has one",
	"embedded.life":                  "the latches of one run of etcd, which any goroutine may drop without a lock",
	"embedded/coordinator.Situation": "a node at one moment, for status, metrics and readiness",
	"embedded/health.BackupStatus":   "a JSON answer",
	"embedded/health.NodeStatus":     "a JSON answer",
	"embedded/health.Releasing":      "all that a release is judged by",
	"embedded/plan.Action":           "an action of any kind",
	"embedded/plan.Disk":             "what a decision is made of",
	"embedded/plan.Facts":            "a message to nodes of other versions, which read the same fields",
	"embedded/plan.Member":           "what a decision is made of",
	"embedded/plan.Observation":      "what a decision is made of",
	"embedded/plan.Restore":          "an object in the store",
	"embedded/plan.Store":            "what a decision is made of",
	"snapshot.Meta":                  "an object in the store",
	"volume.Info":                    "a JSON answer",
	"volume/ebs.Config":              "a section of the configuration",
}

// shapes counts, by type, the methods, the fields and the interface methods in the files of one package.
type shapes struct{ methods, fields, interfaces map[string]int }

// Types of the product are small, or wide gives a reason.
func TestTypesAreSmall(t *testing.T) {
	large := map[string]bool{}
	for dir, files := range productFiles(t) {
		s := shapesOf(files)
		for name, n := range s.methods {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods, at most %d are allowed: split it along its states", dir, name, n, maxMethods)
			}
		}
		for name, n := range s.interfaces {
			if n > maxInterface {
				t.Errorf("interface %s.%s has %d methods, at most %d are allowed: make several that it embeds", dir, name, n,
					maxInterface)
			}
		}
		for name, n := range s.fields {
			if name = dir + "." + name; n <= maxFields {
				continue
			}
			if large[name] = true; wide[name] == "" {
				t.Errorf("%s has %d fields, at most %d are allowed: split it, or say in wide why it has to be", name, n, maxFields)
			}
		}
	}
	for name := range wide {
		if !large[name] {
			t.Errorf("wide has %s, which has at most %d fields, or does not exist", name, maxFields)
		}
	}
}

// productFiles parses the files of the product, without tests and test kits, by the directory below the module.
func productFiles(t *testing.T) map[string][]*ast.File {
	t.Helper()
	all := map[string][]*ast.File{}
	for path, f := range goFiles(t) {
		if dir := filepath.ToSlash(filepath.Dir(path)); !kit(module+"/"+dir) && !strings.HasSuffix(path, "_test.go") {
			all[dir] = append(all[dir], f)
		}
	}
	if len(all) < 20 {
		t.Fatalf("found the packages %q: the check is broken", slices.Collect(maps.Keys(all)))
	}
	return all
}

// goFiles parses all files of the module, by their path below it.
func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	const root = ".."
	all := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		below, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && below != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		all[below], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	})
	must(t, err)
	return all
}

func shapesOf(files []*ast.File) shapes {
	s := shapes{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, f := range files {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				s.methods[receiver(f.Recv.List[0].Type)]++
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			switch is := spec.Type.(type) {
			case *ast.StructType:
				for _, f := range is.Fields.List {
					s.fields[spec.Name.Name] += max(1, len(f.Names))
				}
			case *ast.InterfaceType:
				for _, m := range is.Methods.List { // embedded interfaces count separately
					s.interfaces[spec.Name.Name] += len(m.Names)
				}
			}
			return true
		})
	}
	return s
}

// receiver returns the type's name of a method's receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return fmt.Sprint(e)
}

// A name that only its own package uses is not exported. A type also counts as used if an exported declaration names
// it. Constants or variables of one declaration belong together: if one is used elsewhere, all may be exported.
func TestExportsAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		names := map[string]string{} // imported packages of the module in this file
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if dir, ours := strings.CutPrefix(path, module+"/"); ours {
				name := filepath.Base(dir)
				if i.Name != nil {
					name = i.Name.Name
				}
				names[name] = dir
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && names[p.Name] != "" {
					used[names[p.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	for dir, files := range productFiles(t) {
		shown := typesShown(files)
		for _, group := range exportsOf(files) {
			if slices.ContainsFunc(group, func(name string) bool { return used[dir+"."+name] || shown[name] }) {
				continue
			}
			t.Errorf("%s.%s is exported, and no other package uses it: unexport it", dir, strings.Join(group, ", "))
		}
	}
}

// exportsOf returns the exported names of a package. It groups the constants or variables of one declaration.
func exportsOf(files []*ast.File) (names [][]string) {
	add := func(ids ...*ast.Ident) {
		var group []string
		for _, id := range ids {
			if id.IsExported() {
				group = append(group, id.Name)
			}
		}
		same := func(g []string) bool { return slices.Equal(g, group) } // in files for other systems
		if len(group) > 0 && !slices.ContainsFunc(names, same) {
			names = append(names, group)
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				var values []*ast.Ident
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						values = append(values, s.Names...)
					}
				}
				add(values...)
			}
		}
	}
	return names
}

// typesShown returns the types that a package's exported declarations name: in signatures, fields, methods and
// variables.
func typesShown(files []*ast.File) map[string]bool {
	shown := map[string]bool{}
	var show func(n ast.Node) bool
	show = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
					ast.Inspect(f.Type, show)
				}
			}
			return false
		case *ast.Ident:
			shown[n.Name] = true
		}
		return true
	}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					ast.Inspect(d.Type, show)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							ast.Inspect(s.Type, show)
						}
					case *ast.ValueSpec:
						if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
							ast.Inspect(s.Type, show)
						}
					}
				}
			}
		}
	}
	return shown
}

// The counts are right for a type.
func TestShapes(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
type s[T any] struct { a, b int; other }
func (s[T]) one() {}
func (x *s[T]) two() {}
func three() {}
func Four() {}
var Five, six int
const Seven = 7
const (Nine Fourteen = 9; Eleven = 11; twelve = 12)
type Ten struct { A Fourteen; b Fifteen }
type Fourteen int
type Fifteen int
func (s[T]) Sixteen(x Fifteen) {}
func (s[T]) Eight() {}
type i interface { one(); two(); other }`, parser.SkipObjectResolution)
	must(t, err)
	if got := fmt.Sprint(shapesOf([]*ast.File{f})); got != "{map[s:4] map[Ten:2 s:3] map[i:2]}" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(exportsOf([]*ast.File{f})); got != "[[Four] [Five] [Seven] [Nine Eleven] [Ten] [Fourteen] [Fifteen]]" {
		t.Errorf("exported: got %s", got)
	}
	got := typesShown([]*ast.File{f})
	for name, want := range map[string]bool{"Ten": false, "Fourteen": true, "Fifteen": true, "s": false, "i": false} {
		if got[name] != want {
			t.Errorf("shown: %s: got %t", name, got[name])
		}
	}
}
