#!/usr/bin/env bash
# Builds the S3 server for the tests of the object store into .cache, once for each state of its source, and prints its
# path. No package registry has its binary. It is built without optimization and debug information, which saves a third
# of the time. The flags apply only to its own packages, so that the build uses the cached standard library.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=test/blobtest/s3server
bin=$PWD/.cache/bin/s3server-$(cat $source/go.* $source/*.go | sha256sum | cut -c1-16)
if [ ! -x "$bin" ]; then
  . scripts/tools/lock.sh s3server
fi
if [ ! -x "$bin" ]; then
  mkdir -p .cache/bin
  build=$(mktemp -d "$PWD/.cache/bin/.s3server-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  GOGC=off GOMEMLIMIT=2GiB GOWORK=off go build -C $source -o "$build/s3server" \
    -gcflags='github.com/...=-N -l -dwarf=false' -ldflags='-s -w' . >&2
  mv "$build/s3server" "$bin"
fi
echo "$bin"
