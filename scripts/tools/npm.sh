#!/usr/bin/env bash
# npm.sh FOLDER installs the packages of FOLDER/package-lock.json into .cache and prints the path of their
# node_modules. npm checks their versions and checksums and runs none of their scripts. Each state of the
# lock file is installed only once. FOLDER itself has no node_modules, so a program in it loads a package
# with
#   createRequire(process.env.NODE_MODULES + '/')('name')
# To create or update a lock file, set exact versions in package.json and run npm install
# --package-lock-only --prefix FOLDER. The lock file must not contain the URL of a registry, because others
# may use another registry (npm config omit-lockfile-registry-resolved).
set -euo pipefail
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
if grep -q '"resolved"' "$folder/package-lock.json"; then
  echo "$folder/package-lock.json contains registry URLs: create it again with omit-lockfile-registry-resolved=true" >&2
  exit 1
fi
sum=$(cat "$folder/package.json" "$folder/package-lock.json" | sha256sum | cut -c1-16)
mkdir -p .cache/node
cache=$(cd .cache/node && pwd -P) # npm does not accept a prefix that is a symbolic link
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
