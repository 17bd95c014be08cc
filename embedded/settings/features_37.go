//go:build !etcd36

package settings

// newFeatures are those that etcd 3.7 has and etcd 3.6 has not.
var newFeatures = []string{"FastLeaseKeepAlive", "PriorityRequest"}
