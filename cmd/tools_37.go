//go:build !etcd36

package cmd

import (
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

// addLockTimeout adds the flag for what etcdutl 3.6 does not have: without it that waits forever.
func addLockTimeout(fs *pflag.FlagSet) {
	fs.DurationVar(&etcdutl.FlockTimeout, "timeout", 10*time.Second,
		"time to wait for the lock of the database file, 0: forever")
}
