//go:build !etcd36

package settings

// newFeatures are features that etcd 3.7 has and etcd 3.6 lacks.
var newFeatures = []string{"FastLeaseKeepAlive", "PriorityRequest"}
