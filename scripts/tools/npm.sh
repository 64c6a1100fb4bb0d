#!/usr/bin/env bash
# npm.sh FOLDER installs the packages that FOLDER/package-lock.json locks (by version and checksum; no scripts of the
# packages run) into the project's cache, once for each state of the lock, and prints the path of their node_modules.
# FOLDER itself stays without a node_modules: a program there finds its packages by
#   createRequire(process.env.NODE_MODULES + '/')('name')
# To make or renew a lock: npm install --package-lock-only --prefix FOLDER, with exact versions in package.json; the
# lock must name no registry, or it could be used at one place only (npm config omit-lockfile-registry-resolved).
set -euo pipefail
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
if grep -q '"resolved"' "$folder/package-lock.json"; then
  echo "$folder/package-lock.json names a registry: renew it with omit-lockfile-registry-resolved=true" >&2
  exit 1
fi
sum=$(cat "$folder/package.json" "$folder/package-lock.json" | sha256sum | cut -c1-16)
mkdir -p .cache/node
cache=$(cd .cache/node && pwd -P) # npm refuses a prefix behind a link
dir=$cache/npm-$(basename "$folder")-$sum
if [ ! -d "$dir/node_modules" ]; then
  . scripts/tools/lock.sh "npm-$(basename "$folder")"
fi
if [ ! -d "$dir/node_modules" ]; then
  build=$(mktemp -d "$cache/.npm-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  cp "$folder/package.json" "$folder/package-lock.json" "$build/"
  npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$build" >&2
  chmod 755 "$build"
  mv -T "$build" "$dir"
fi
echo "$dir/node_modules"
