//go:build !linux

package child

import (
	"context"
	"errors"
	"io"
	"syscall"
)

// errNoIsolation means that only Linux has network namespaces.
var errNoIsolation = errors.New("no network of its own can be made here: run it on Linux")

// Isolated always returns an error.
func Isolated(context.Context, string, any, any, io.Writer) error { return errNoIsolation }

// Loopback does nothing.
func Loopback() error { return nil }

// EndWithParent puts a child into a process group of its own. Only Linux signals a process whose parent has ended. On
// other systems, nodes outlive a demo that was killed, and keep the lock of its directory.
func EndWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
