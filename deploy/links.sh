#!/bin/sh
# Makes the links of an image: links.sh DIR. Under these names the binary is what kops' manifest of etcd-manager starts.
# It removes nothing else that DIR has.
set -eu
to=${1:?usage: links.sh DIR}
mkdir -p "$to/ko-app"
ln -sfn /holdfast "$to/ko-app/etcd-manager"
ln -sfn /holdfast "$to/go-runner"
