// Package settings is the `etcd:` section of the configuration: etcd's own flags under their own names, their defaults
// and what is wrong with them.
//
// It imports nothing of etcd's, so that what reads or checks a configuration does not link a server. What it repeats of
// etcd, which is the defaults, the features and the bounds, the tests of package embedded compare with etcd.
package settings
