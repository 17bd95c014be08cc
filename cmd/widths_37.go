//go:build !etcd36

package cmd

import "github.com/olekukonko/tablewriter/pkg/twwidth"

// The tables of etcdctl 3.7 would keep 0.6 MB for the widths of what they print, in every process.
func init() { twwidth.SetCacheCapacity(0) }
