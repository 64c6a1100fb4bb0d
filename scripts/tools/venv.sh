#!/usr/bin/env bash
# venv.sh NAME LOCK... prints the path of a Python interpreter with the packages of the lock files, checked
# by version and checksum. uv creates the environment in .cache, once for each state of the lock files.
# Concurrent callers wait for one installation. To update a lock file:
#   uv pip compile --generate-hashes --no-header --no-emit-index-url --universal requirements.in -o requirements.lock
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1
shift
dir=$PWD/.cache/venv/$name-$(cat "$@" | sha256sum | cut -c1-16)
if [ ! -f "$dir/.complete" ]; then
  uv=$(scripts/tools/uv.sh)
  . scripts/tools/lock.sh "venv-$name"
fi
if [ ! -f "$dir/.complete" ]; then
  rm -rf "$dir"
  # Use the package index that is configured for pip.
  index=$(python3 -m pip config get global.index-url 2> /dev/null || true)
  [ -z "${PIP_INDEX_URL:-$index}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$index}}
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}
  export UV_CACHE_DIR=$PWD/.cache/uv UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never
  "$uv" venv --quiet --python "$(command -v python3)" "$dir" >&2
  # The lock files include all dependencies that are needed; those of the training recipes leave some out on purpose.
  for lock in "$@"; do "$uv" pip install --quiet --python "$dir/bin/python" --no-deps --require-hashes -r "$lock" >&2; done
  touch "$dir/.complete"
fi
echo "$dir/bin/python"
