#!/usr/bin/env bash
# Builds the gotestsum version of tools/go.mod into .cache if necessary, and prints its path.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's#^.*gotest.tools/gotestsum v\([0-9.]*\).*#\1#p' tools/go.mod | head -1)
bin=$PWD/.cache/bin/gotestsum-$version
if [ ! -x "$bin" ]; then
  . scripts/tools/lock.sh gotestsum
fi
if [ ! -x "$bin" ]; then
  mkdir -p .cache/bin
  GOWORK=off go build -modfile=tools/go.mod -ldflags='-s -w' -o "$bin" gotest.tools/gotestsum
fi
echo "$bin"
