#!/bin/sh
# Makes the links of an image: links.sh DIR. Under these names the binary is what kops' manifest of etcd-manager starts.
set -eu
to=${1:?usage: links.sh DIR}
rm -rf "$to"
mkdir -p "$to/ko-app"
ln -s /holdfast "$to/ko-app/etcd-manager"
ln -s /holdfast "$to/go-runner"
