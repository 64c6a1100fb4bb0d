#!/usr/bin/env bash
# Builds the pinned golangci-lint from tools/go.mod into the project's cache, once, and prints its path. No registry has
# a binary of its makers, and it needs many packages: the build takes some minutes of one core.
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
