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

// private is set in the environment of tests that run in a mount namespace of their own.
const private = "HOLDFAST_TEST_PRIVATE_MOUNTS"

// Main runs the tests of a package that mounts devices, in a mount namespace of their own: every mount namespace
// that somebody else makes while a device is mounted in the common one gets a copy of that mount, and the device
// stays in use until it ends. Call it from TestMain.
func Main(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(private) != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the child dies with the thread that has started it
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
