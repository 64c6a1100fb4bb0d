#!/usr/bin/env bash
# Installs the pinned uv from PyPI into .cache if necessary, and prints its path. Tests build Python
# environments with it. Concurrent callers wait for one installation.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=0.13.9
dir=$PWD/.cache/uv-$version
if [ ! -x "$dir/bin/uv" ]; then
  . scripts/tools/lock.sh uv
fi
if [ ! -x "$dir/bin/uv" ]; then
  build=$(mktemp -d "$PWD/.cache/.uv-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$build/uv" "uv==$version" >&2
  mv -T "$build/uv" "$dir"
fi
echo "$dir/bin/uv"
