// Package gorunner runs a command and writes its output to a file, as Kubernetes' go-runner (kube-log-runner) does in
// images without a shell. kops starts etcd-manager with it: /go-runner --log-file=FILE --also-stdout COMMAND….
package gorunner
