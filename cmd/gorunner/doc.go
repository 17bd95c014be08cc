// Package gorunner runs a command and keeps what it prints in a file, as Kubernetes' go-runner (kube-log-runner) does
// in images that have no shell. kops starts etcd-manager with it: /go-runner --log-file=FILE --also-stdout COMMAND….
package gorunner
