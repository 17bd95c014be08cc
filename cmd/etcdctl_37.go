//go:build !etcd36

package cmd

import "github.com/olekukonko/tablewriter/pkg/twwidth"

// The library for etcdctl's tables makes a cache of 640 KB in every process that links it, also in a node.
func init() { twwidth.SetCacheCapacity(0) }
