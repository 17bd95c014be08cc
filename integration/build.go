package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Build compiles holdfast without cgo into dir and returns the path of the binary. Unlike make build, it uses no
// profile: with one, every linked package would be compiled again.
func Build(dir string) (string, error) {
	return build(filepath.Join(dir, "holdfast"))
}

// BuildEtcd36 compiles the same source with etcd 3.6, as etcd36.mod pins it. With an empty cache that takes two cores a
// minute or two, and downloads modules.
func BuildEtcd36(dir string) (string, error) {
	self, err := exec.Command("go", "list", "-find", "-f", "{{.Dir}}", "holdfast/integration").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of this package: %w", err)
	}
	modfile := filepath.Join(filepath.Dir(strings.TrimSpace(string(self))), "etcd36.mod")
	return build(filepath.Join(dir, "holdfast-etcd36"), "-modfile="+modfile, "-tags=etcd36")
}

func build(binary string, flags ...string) (string, error) {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", binary}, flags,
		[]string{"holdfast/cmd/holdfast"})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return binary, nil
}
