#!/usr/bin/env bash
# Installs the S3 server that the object store's contract suite runs against into
# the project's cache, once, and prints its path.
set -euo pipefail

version=v1.8.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin="$root/.cache/bin"
target="$bin/versitygw-$version"
link="$bin/versitygw"

if [ ! -x "$target" ]; then
  mkdir -p "$bin"
  build=$(mktemp -d "$bin/.versitygw-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  echo "versitygw.sh: building versitygw $version (a minute or two, once)" >&2
  # From an empty folder, so that neither the workspace nor go.mod has a say.
  (cd "$build" && GOWORK=off GOFLAGS=-mod=mod GOBIN="$build" go install "github.com/versity/versitygw/cmd/versitygw@$version") >&2
  mv "$build/versitygw" "$target"
fi
ln -sfn "$(basename "$target")" "$link"
echo "$link"
