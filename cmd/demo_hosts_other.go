//go:build !linux

package cmd

import (
	"context"
	"errors"
)

// runHostsDemo says why there is none.
func runHostsDemo(context.Context, demoOptions, demoView, func(string, ...any)) error {
	return errors.New("--hosts: the hosts are Linux network namespaces; without it the demo runs here as well")
}
