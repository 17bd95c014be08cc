//go:build !linux

package child

import (
	"context"
	"errors"
	"io"
)

// errNoIsolation: only Linux has networks of one's own.
var errNoIsolation = errors.New("no network of its own can be made here: run it on Linux")

// Isolated makes none.
func Isolated(context.Context, string, any, any, io.Writer) error { return errNoIsolation }

// Loopback has nothing to do.
func Loopback() error { return nil }
