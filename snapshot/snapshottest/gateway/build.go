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

const self = "holdfast/snapshot/snapshottest/gateway"

// owners have the large modules that the gateway needs and holdfast does not.
var owners = []string{
	"andybalholm", "DataDog", "go-ldap", "gofiber", "hashicorp", "nats-io", "rabbitmq", "segmentio", "tinylib", "valyala",
	"versity",
}

// Build returns the path of the gateway's binary. The first call on a machine builds it, which takes half a minute on
// two cores, and the network for its modules. The binary stays in the user's cache directory, under the checksum of
// its sources.
func Build() (string, error) {
	source, err := module()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{"main.go", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("build versitygw: %w", err)
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build versitygw: find a directory to keep it in: %w", err)
	}
	sum.Write([]byte(runtime.Version() + runtime.GOARCH))
	key := fmt.Sprintf("%x", sum.Sum(nil))
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
	// With the flags of all other builds ($GOFLAGS) it reuses what was compiled before: Go's own library, and the modules
	// of which its own module file names the same version as holdfast's.
	args := []string{"build", "-C", source, "-modfile=", "-buildvcs=false", "-ldflags", "-s -w", "-o", temp}
	for _, owner := range owners { // what only the gateway needs compiles in two thirds of the time without optimisation
		args = append(args, "-gcflags=github.com/"+owner+"/...=-N -l -dwarf=false")
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=400")
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
