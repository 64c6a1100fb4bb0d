#!/usr/bin/env bash
# Builds the pinned grpcurl from tools/go.mod into the project's cache, once, and prints its path.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's#^.*fullstorydev/grpcurl v\([0-9.]*\).*#\1#p' tools/go.mod | head -1)
bin=$PWD/.cache/bin/grpcurl-$version
if [ ! -x "$bin" ]; then
  mkdir -p .cache/bin
  GOWORK=off go build -modfile=tools/go.mod -o "$bin" github.com/fullstorydev/grpcurl/cmd/grpcurl
fi
echo "$bin"
