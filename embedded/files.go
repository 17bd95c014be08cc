package embedded

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/pkg/v3/runtime"
)

// Crowded says that this process has so many files open that clients are refused, or soon will be; it returns nothing
// while there is room. Only Linux tells. etcd itself stops accepting, and gRPC's own transport closes the connection:
// neither of them is seen from outside.
func Crowded() []string {
	most, err := runtime.FDLimit()
	if err != nil {
		return nil
	}
	fds, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer fds.Close()
	names, err := fds.Readdirnames(0)
	if open := uint64(len(names)); err == nil && open+ownFiles > most {
		return []string{fmt.Sprintf("%d files are open of the %d that the process may have open, and it needs %d for "+
			"itself: clients that connect now are refused, or soon will be", open, most, ownFiles)}
	}
	return nil
}
