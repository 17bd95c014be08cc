package devicetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// private is set in the environment of tests that run in their own mount namespace.
const private = "HOLDFAST_TEST_PRIVATE_MOUNTS"

// Main runs the tests of a package in their own mount namespace. Call it from TestMain. In the common namespace, every
// new mount namespace of another process would get a copy of a mount, and the device would stay in use until that
// namespace ends.
func Main(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(private) != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // Pdeathsig kills the child when the thread that started it ends
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), private+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		fmt.Fprintln(os.Stderr, "run the tests in a mount namespace of their own:", err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}
