//go:build etcd36

package settings

// newFeatures are those that etcd 3.6 lacks: see features_37.go.
var newFeatures []string
