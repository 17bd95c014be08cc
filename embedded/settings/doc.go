// Package settings is the `etcd:` section of the configuration: etcd's own flags under their own names, with their
// defaults and their validation.
//
// It does not import etcd, so that programs that only read or check a configuration do not link a server. It repeats
// etcd's defaults, features and bounds; the tests of package embedded compare them with etcd.
package settings
