package show

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// bom is a CycloneDX document (https://cyclonedx.org/docs/1.6/json) with what the toolchain has recorded in the
// binary: the modules, their versions and their sums. It has no date and no serial number, so that two builds of the
// same sources have the same document.
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

// bomEdge is a dependency. The binary does not record which module needs which, so all are dependencies of the program.
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

// goSum is the property with a module's sum from go.sum. It is no hash in CycloneDX's sense, because it is a digest of
// digests of files.
const goSum = "holdfast:go.sum"

// SBOM prints the modules that are linked into this binary.
func SBOM(w io.Writer, version string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this binary does not know what it was built of: build it with modules")
	}
	return JSON(w, sbomOf(info, version, runtime.Version()))
}

// sbomOf returns the document of a binary, with its version and that of Go.
func sbomOf(info *debug.BuildInfo, version, goVersion string) bom {
	program := newComponent("application", info.Main.Path, version)
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: bomMetadata{program}}
	add := func(c component) {
		b.Components = append(b.Components, c)
		b.Depends = append(b.Depends, bomEdge{Ref: c.Ref})
	}
	add(newComponent("library", "std", strings.TrimPrefix(goVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := newComponent("library", m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = []bomProperty{{goSum, m.Sum}}
		}
		add(c)
	}
	root := bomEdge{Ref: program.Ref}
	for _, c := range b.Components {
		root.On = append(root.On, c.Ref)
	}
	b.Depends = append([]bomEdge{root}, b.Depends...)
	return b
}

// newComponent returns a module with its package URL (https://github.com/package-url/purl-spec, type golang). The URL
// escapes a + in the version.
func newComponent(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
