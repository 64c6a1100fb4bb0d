#!/usr/bin/env bash
# Builds the S3 server for the tests of the object store into .cache if necessary, and prints its path. No
# package registry has its binary. The build omits optimization and debug information, which saves a third
# of the time.
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
  # Build in an empty folder, so that neither go.work nor go.mod applies.
  (cd "$build" && GOGC=400 GOWORK=off GOFLAGS=-mod=mod GOBIN="$build" go install \
    -gcflags='github.com/...=-N -l -dwarf=false' -ldflags='-s -w' "github.com/versity/versitygw/cmd/versitygw@$version") >&2
  mv "$build/versitygw" "$bin"
fi
echo "$bin"
