//go:build !linux

package volume

import "os"

// isLockedOFD reports nothing: only Linux has such locks, and etcd uses flock elsewhere.
func isLockedOFD(*os.File) (bool, error) { return false, nil }
