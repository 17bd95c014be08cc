package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// ErrStalled is wrapped by errors that only say that a device did not answer in time. A stalled EBS volume is not lost:
// it comes back.
var ErrStalled = errors.New("the device does not answer")

// grace is how long a killed program may take to end. A program that waits for a device does not end.
const grace = 2 * time.Second

// packages are the Debian packages of the programs that are run.
var packages = map[string]string{
	"blkid": "util-linux", "blockdev": "util-linux", "mount": "mount",
	"mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "resize2fs": "e2fsprogs",
	"mkfs.xfs": "xfsprogs", "xfs_growfs": "xfsprogs",
}

// find returns the path of a program. The PATH of a service may lack the administrator's directories.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s is missing: install it (Debian: apt-get install %s)", name, packages[name])
}

// Has reports whether a program is on this machine.
func Has(name string) bool {
	_, err := find(name)
	return err == nil
}

// need returns an error that names the first missing program.
func need(names ...string) error {
	for _, name := range names {
		if _, err := find(name); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program. If the program fails, the error has its output and wraps the *exec.ExitError.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	what := name + " " + strings.Join(args, " ")
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment()
	cmd.WaitDelay = grace
	var out []byte
	err = bounded(ctx, what, func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	switch {
	case errors.Is(err, ErrStalled):
		return nil, err // out still belongs to the goroutine
	case err != nil && ctx.Err() != nil:
		return out, fmt.Errorf("%s: %w", what, ctx.Err())
	case err != nil:
		return out, fmt.Errorf("%s: %w: %s", what, err, oneLine(out))
	}
	return out, nil
}

// exitCode returns a program's non-zero exit code, or -1 for any other error.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

func environment() []string { return append(os.Environ(), "LC_ALL=C") }

// oneLine puts the output of a program on one line.
func oneLine(out []byte) string {
	return strings.Join(strings.FieldsFunc(strings.TrimSpace(string(out)),
		func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// bounded calls f, which may hang in the kernel, and waits for it until a short time after ctx has ended.
func bounded(ctx context.Context, what string, f func() error) error {
	return within(ctx.Done(), grace, what, f)
}

// within calls f, which may hang in the kernel, and waits for it until limit has passed since begun was closed. If f
// hangs, it cannot be killed, and its goroutine stays until the device answers.
func within(begun <-chan struct{}, limit time.Duration, what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-begun:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("%s: %w", what, ErrStalled)
	}
}

// programs runs the programs of mount-utils, whose interface has no context, with a context.
type programs struct {
	utilexec.Interface
	ctx context.Context
}

func newPrograms(ctx context.Context) programs {
	quiet()
	return programs{utilexec.New(), ctx}
}

func (p programs) Command(name string, args ...string) utilexec.Cmd {
	if path, err := find(name); err == nil {
		name = path
	}
	cmd := p.CommandContext(p.ctx, name, args...)
	cmd.SetEnv(environment())
	return cmd
}

// newMounter returns a mounter without systemd-run, which is not needed: there are no daemons in these mounts.
func newMounter() mount.Interface {
	quiet()
	return mount.NewWithoutSystemd("")
}

// quiet silences mount-utils, which logs what it also returns. Nothing else here logs through klog.
var quiet = sync.OnceFunc(func() {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
})
