#!/usr/bin/env bash
# Installs the pinned squawk, a linter for migrations of Postgres, from PyPI into .cache if necessary, and prints its
# path. Concurrent callers wait for one installation.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=2.70.0
dir=$PWD/.cache/squawk-$version
if [ ! -x "$dir/bin/squawk" ]; then
  . scripts/tools/lock.sh squawk
fi
if [ ! -x "$dir/bin/squawk" ]; then
  build=$(mktemp -d "$PWD/.cache/.squawk-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$build/squawk" "squawk-cli==$version" >&2
  mv -T "$build/squawk" "$dir"
fi
echo "$dir/bin/squawk"
