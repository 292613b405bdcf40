#!/bin/sh
# usage: deploy/licenses.sh FOLDER   copies the licence of every module that the programs are made of, from the module cache, and Go's own
set -eu
out=$1
mkdir -p "$out"
cp LICENSE "$out/LICENSE"
cp "$(go env GOROOT)/LICENSE" "$out/GO-LICENSE"
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/aerie ./cmd/coordinator ./cmd/worker | sort -u |
while read -r module dir; do
  found=
  for file in "$dir"/LICENSE* "$dir"/LICENCE* "$dir"/License* "$dir"/license* "$dir"/UNLICENSE* "$dir"/COPYING* "$dir"/NOTICE* "$dir"/PATENTS*; do
    [ -f "$file" ] || continue
    mkdir -p "$out/$module"
    cp "$file" "$out/$module/"
    found=yes
  done
  [ -n "$found" ] || { echo "$module has no licence text in $dir" >&2; exit 1; }
done
