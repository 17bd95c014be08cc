//go:build !linux

package embedded

import (
	"errors"
	"os"
)

// exchange needs a kernel that can do it in one step.
func exchange(_, _ string) error { return errors.ErrUnsupported }

// walLocked tells nothing: the lock of the database has to do.
func walLocked(*os.File) (bool, error) { return false, nil }
