//go:build etcd36

package cmd

import "github.com/spf13/pflag"

func addLockTimeout(*pflag.FlagSet) {}
