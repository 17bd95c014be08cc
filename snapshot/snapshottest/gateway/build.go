package gateway

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	self    = "holdfast/snapshot/snapshottest/gateway"
	program = "github.com/versity/versitygw/cmd/versitygw"
)

// Build returns the path of the gateway's binary. The first call on a machine builds it, which takes a minute or two on
// two cores, and the network for its modules. The binary stays in the user's cache directory, under the checksum of its
// sources.
func Build() (string, error) {
	source, err := module()
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return "", fmt.Errorf("build versitygw: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build versitygw: find a directory to keep it in: %w", err)
	}
	key := fmt.Sprintf("%x", sha256.Sum256(append(sum, runtime.Version()+runtime.GOARCH...)))
	dir := filepath.Join(cache, "holdfast-test", "versitygw-"+key[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build versitygw: %w", err)
	}
	// Several packages may be tested at once: only one of them builds.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build versitygw: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("build versitygw: lock %s: %w", lock.Name(), err)
	}
	binary := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	temp := binary + ".new"
	// With the flags of all other builds ($GOFLAGS) it reuses what was compiled before, mainly Go's own library. Its
	// module file is its own.
	cmd := exec.Command("go", "build", "-C", source, "-modfile=", "-buildvcs=false", "-ldflags", "-s -w", "-o", temp,
		program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build versitygw, which needs the network once for its modules (go test "+
			"-short does without): %w\n%s", err, out)
	}
	if err := os.Rename(temp, binary); err != nil {
		return "", fmt.Errorf("build versitygw: %w", err)
	}
	return binary, nil
}

// module returns the directory of the module that pins the gateway.
func module() (string, error) {
	out, err := exec.Command("go", "list", "-find", "-f", "{{.Dir}}", self).Output()
	if err != nil {
		return "", fmt.Errorf("find the source of package %s: %w", self, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "versitygw"), nil
}
