package show

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// goSum is the property with a module's sum from go.sum. It is no hash in CycloneDX's sense, because it is a digest of
// digests of files.
const goSum = "holdfast:go.sum"

// object is a part of the document.
type object = map[string]any

// SBOM prints the modules that are linked into this binary, as a CycloneDX document
// (https://cyclonedx.org/docs/1.6/json) with what the toolchain has recorded: their versions and their sums. It has no
// date and no serial number, so that two builds of the same sources have the same document.
func SBOM(w io.Writer, version string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this binary does not know what it was built of: build it with modules")
	}
	return JSON(w, sbomOf(info, version, runtime.Version()))
}

// sbomOf returns the document of a binary, with its version and that of Go. The binary does not record which module
// needs which, so all are dependencies of the program.
func sbomOf(info *debug.BuildInfo, version, goVersion string) object {
	program := newComponent("application", info.Main.Path, version)
	components := []object{newComponent("library", "std", strings.TrimPrefix(goVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := newComponent("library", m.Path, m.Version)
		if m.Sum != "" {
			c["properties"] = []object{{"name": goSum, "value": m.Sum}}
		}
		components = append(components, c)
	}
	var on []any
	edges := []object{{"ref": program["bom-ref"]}}
	for _, c := range components {
		on, edges = append(on, c["bom-ref"]), append(edges, object{"ref": c["bom-ref"]})
	}
	edges[0]["dependsOn"] = on
	return object{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": object{"component": program},
		"components": components, "dependencies": edges}
}

// newComponent returns a module with its package URL (https://github.com/package-url/purl-spec, type golang). The URL
// escapes a + in the version.
func newComponent(kind, path, version string) object {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return object{"type": kind, "bom-ref": purl, "name": path, "version": version, "purl": purl}
}
