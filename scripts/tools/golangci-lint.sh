#!/usr/bin/env bash
# Builds the golangci-lint version of tools/go.mod into .cache if necessary, and prints its path. No
# package registry has its official binary. The build takes some minutes of CPU time because it compiles
# many packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's#^.*golangci/golangci-lint/v2 v\([0-9.]*\).*#\1#p' tools/go.mod | head -1)
bin=$PWD/.cache/bin/golangci-lint-$version
if [ ! -x "$bin" ]; then
  . scripts/tools/lock.sh golangci-lint
fi
if [ ! -x "$bin" ]; then
  mkdir -p .cache/bin
  GOWORK=off GOGC=400 go build -modfile=tools/go.mod -ldflags='-s -w' -o "$bin" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
fi
echo "$bin"
