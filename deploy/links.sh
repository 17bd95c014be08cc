#!/bin/sh
# Makes the links of an image in DIR: links.sh DIR. kops' manifest for etcd-manager starts the binary under these names.
# Other files in DIR are kept.
set -eu
to=${1:?usage: links.sh DIR}
mkdir -p "$to/ko-app"
ln -sfn /holdfast "$to/ko-app/etcd-manager"
ln -sfn /holdfast "$to/go-runner"
