package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles holdfast as it is released, without cgo, into dir and returns the path of the binary.
func Build(dir string) (string, error) {
	binary := filepath.Join(dir, "holdfast")
	cmd := exec.Command("go", "build", "-o", binary, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return binary, nil
}
