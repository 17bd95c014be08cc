//go:build !linux

package volume

const noAccessTime = 0
