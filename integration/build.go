package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Build compiles holdfast without cgo into dir and returns the path of the binary. The released one is optimised for a
// profile besides (make build), which would compile all that is linked once more.
func Build(dir string) (string, error) {
	return build(filepath.Join(dir, "holdfast"))
}

// BuildEtcd36 compiles the same source against etcd 3.6, as etcd36.mod pins it. Where nothing of it was
// compiled before that takes a minute or two of two cores, and the network for its modules.
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
