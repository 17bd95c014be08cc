#!/usr/bin/env bash
# Collects the licences of all modules that are linked into the binary, and of Go: licences.sh DIR. It looks for them in
# the directories of the linked packages and above. A module without a licence is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
to=${1:?usage: licences.sh DIR}
go=${GO:-go}

rm -rf "$to"
mkdir -p "$to/go"
cp "$("$go" env GOROOT)/LICENSE" "$to/go/LICENSE"
mkdir -p "$to/holdfast"
cp LICENSE "$to/holdfast/LICENSE"

CGO_ENABLED=0 "$go" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' ./cmd/holdfast |
  sort -u | while read -r module root dir; do
  while :; do
    for file in "$dir"/*; do
      case ${file##*/} in
      *.go) ;;
      LICEN[CS]E* | Licen[cs]e* | licen[cs]e* | COPYING* | COPYRIGHT* | NOTICE* | PATENTS*)
        [ -f "$file" ] || continue
        under=$to/$module${dir#"$root"}
        mkdir -p "$under"
        install -m 0644 "$file" "$under/"
        ;;
      esac
    done
    [ "$dir" != "$root" ] || break
    dir=${dir%/*}
  done
  if [ ! -d "$to/$module" ]; then
    echo "licences: $module has none in $root" >&2
    exit 1
  fi
done
echo "licences: $(find "$to" -type f | wc -l) files of $(find "$to" -mindepth 1 -type d -name '*@*' | wc -l) modules in $to"
