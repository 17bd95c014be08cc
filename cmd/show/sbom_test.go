package show

import (
	"bytes"
	"encoding/json"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// bom has all keys of CycloneDX 1.6 that the document may have.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"` // of the document
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
	Depends    []bomEdge   `json:"dependencies"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type bomEdge struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

type component struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	PURL       string        `json:"purl"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// decoded reads a document that has no other keys.
func decoded(t *testing.T, text []byte) (doc bom) {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The document has what the schema of CycloneDX 1.6 requires, and each module once, as the toolchain tells it.
func TestSBOM(t *testing.T) {
	var out bytes.Buffer
	if err := SBOM(&out, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	doc := decoded(t, out.Bytes())
	info, _ := debug.ReadBuildInfo()
	if len(doc.Components) != len(info.Deps)+1 {
		t.Errorf("want the %d modules and Go, got %d components", len(info.Deps), len(doc.Components))
	}
	wantValid(t, doc)
}

// purl is what newComponent may give: no character in it would need an escape.
var purl = regexp.MustCompile(`^pkg:golang/[A-Za-z0-9._~/-]+@[A-Za-z0-9._~%()-]+$`)

// wantValid fails unless what the schema requires is there: bomFormat and specVersion, a version of at least 1, of each
// component a known type and a name, references that are unique, and dependencies between those that exist.
func wantValid(t *testing.T, doc bom) {
	t.Helper()
	if doc.Format != "CycloneDX" || doc.Spec != "1.6" || doc.Version < 1 {
		t.Errorf("head: got %q, %q, %d", doc.Format, doc.Spec, doc.Version)
	}
	refs := map[string]bool{}
	for _, c := range append([]component{doc.Metadata.Component}, doc.Components...) {
		if c.Type != "application" && c.Type != "library" || c.Name == "" || c.Version == "" || !purl.MatchString(c.PURL) {
			t.Errorf("component: got %+v", c)
		}
		if refs[c.Ref] || c.Ref == "" {
			t.Errorf("reference %q is there twice or empty", c.Ref)
		}
		refs[c.Ref] = true
	}
	for _, d := range doc.Depends {
		for _, ref := range append(d.On, d.Ref) {
			if !refs[ref] {
				t.Errorf("a dependency on %q, which is no component", ref)
			}
		}
	}
	if len(doc.Depends) == 0 || len(doc.Depends[0].On) != len(doc.Components) {
		t.Errorf("want that the program depends on all of them, got %+v", doc.Depends)
	}
}

// A module that is replaced is named by what is in its place, and a sum is kept as it is.
func TestSBOMOf(t *testing.T) {
	main := debug.Module{Path: "holdfast", Version: "(devel)"}
	text, err := json.Marshal(sbomOf(&debug.BuildInfo{Main: main, Deps: []*debug.Module{
		{Path: "a.example/b", Version: "v1.0.0+incompatible", Sum: "h1:x="},
		{Path: "c.example/d", Version: "v1.0.0", Replace: &debug.Module{Path: "e.example/d", Version: "v1.0.1"}},
	}}, "v1.2.3", "go1.26.0"))
	if err != nil {
		t.Fatal(err)
	}
	doc := decoded(t, text)
	wantValid(t, doc)
	var names []string
	for _, c := range doc.Components {
		names = append(names, c.PURL)
	}
	want := "pkg:golang/std@1.26.0 pkg:golang/a.example/b@v1.0.0%2Bincompatible pkg:golang/e.example/d@v1.0.1"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	if p := doc.Components[1].Properties; len(p) != 1 || p[0] != (bomProperty{goSum, "h1:x="}) {
		t.Errorf("sum: got %+v", p)
	}
}
