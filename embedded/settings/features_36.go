//go:build etcd36

package settings

// newFeatures are features that etcd 3.6 lacks; see features_37.go.
var newFeatures []string
