#!/usr/bin/env bash
# Installs the pinned buf from npm into .cache if necessary, and prints its path.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.75.0
dir=.cache/node/buf-$version
if [ ! -f "$dir/.complete" ]; then
  . scripts/tools/lock.sh buf
fi
if [ ! -f "$dir/.complete" ]; then
  mkdir -p "$dir"
  npm install --silent --no-audit --no-fund --prefix "$dir" "@bufbuild/buf@$version" >&2
  touch "$dir/.complete"
fi
echo "$PWD/$dir/node_modules/.bin/buf"
