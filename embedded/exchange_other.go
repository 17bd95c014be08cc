//go:build !linux

package embedded

import "errors"

// exchange needs a kernel that can do it in one step.
func exchange(_, _ string) error { return errors.ErrUnsupported }
