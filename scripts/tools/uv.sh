#!/usr/bin/env bash
# Prints the path of the pinned uv, which the tests of environments run for real; it comes from PyPI into the
# project's cache. Callers at once may each build, and the first one's folder stays.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=0.13.9
dir=$PWD/.cache/uv-$version
if [ ! -x "$dir/bin/uv" ]; then
  mkdir -p .cache
  build=$(mktemp -d "$PWD/.cache/.uv-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  python3 -m pip install --quiet --no-deps --target "$build/uv" "uv==$version" >&2
  mv -T "$build/uv" "$dir" 2> /dev/null || [ -x "$dir/bin/uv" ]
fi
echo "$dir/bin/uv"
