#!/usr/bin/env bash
# Builds the S3 server that the object store's tests run against into the project's cache, once, and prints its path.
# No registry has a binary of it. It is built without optimization and debugger's tables, which takes two thirds of the time.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=v1.8.0
bin=$PWD/.cache/bin/versitygw-$version
if [ ! -x "$bin" ]; then
  . scripts/tools/lock.sh versitygw
fi
if [ ! -x "$bin" ]; then
  mkdir -p .cache/bin
  build=$(mktemp -d "$PWD/.cache/bin/.versitygw-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  # From an empty folder, so that neither the workspace nor go.mod applies.
  (cd "$build" && GOGC=400 GOWORK=off GOFLAGS=-mod=mod GOBIN="$build" go install \
    -gcflags='github.com/...=-N -l -dwarf=false' -ldflags='-s -w' "github.com/versity/versitygw/cmd/versitygw@$version") >&2
  mv "$build/versitygw" "$bin"
fi
echo "$bin"
