//go:build !linux

package child

import (
	"context"
	"errors"
	"io"
)

// errNoIsolation means that only Linux has network namespaces.
var errNoIsolation = errors.New("no network of its own can be made here: run it on Linux")

// Isolated always returns an error.
func Isolated(context.Context, string, any, any, io.Writer) error { return errNoIsolation }

// Loopback does nothing.
func Loopback() error { return nil }
