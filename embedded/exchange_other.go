//go:build !linux

package embedded

import "errors"

// exchange is not supported: it needs a kernel that swaps two names in one atomic step.
func exchange(_, _ string) error { return errors.ErrUnsupported }
