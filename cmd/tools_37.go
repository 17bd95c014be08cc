//go:build !etcd36

package cmd

import (
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

// addLockTimeout adds etcdutl's flag --timeout, which etcdutl 3.6 does not have. Without it, etcdutl waits forever.
func addLockTimeout(fs *pflag.FlagSet) {
	fs.DurationVar(&etcdutl.FlockTimeout, "timeout", 10*time.Second,
		"time to wait for the lock of the database file, 0: forever")
}
