#!/usr/bin/env bash
# Builds the binary in this tree, and again from a copy in another directory with an empty build cache, and compares the
# bytes. The two builds share only the modules, which go.sum pins. Both get the same VERSION, because git describe may
# differ in a copy.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${VERSION:-reproducible}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/elsewhere"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/elsewhere"

make --no-print-directory build GO="${GO:-go}" VERSION="$version" BIN="$work/here.bin"
GOCACHE=$work/cache make --no-print-directory -C "$work/elsewhere" build GO="${GO:-go}" VERSION="$version" BIN="$work/there.bin"

sha256sum "$work/here.bin" "$work/there.bin"
cmp "$work/here.bin" "$work/there.bin"
echo "reproducible: the same bytes, from two directories, with and without a cache"
