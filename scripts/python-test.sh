#!/usr/bin/env bash
# The tests of the Python reporter and of the recipes, each in an environment of its own pinned packages.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
environment() { # NAME LOCK... -> path of an interpreter that has the locks installed
  local name=$1; shift
  local digest; digest=$(cat "$@" | sha256sum | cut -c1-16)
  local dir=$PWD/.cache/venv/$name-$digest
  if [ ! -f "$dir/.complete" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir" >&2
    for lock in "$@"; do "$dir/bin/python" -m pip install --quiet --require-hashes -r "$lock" >&2; done
    touch "$dir/.complete"
  fi
  echo "$dir/bin/python"
}
sdk=$(environment sdk sdk/python/requirements-dev.lock)
(cd sdk/python && PYTHONPATH=src "$sdk" -m pytest -q -p no:cacheprovider tests && "$sdk" -m mypy --no-incremental --strict src)
recipe=$(environment chat-tiny recipes/demo/chat-tiny/requirements.lock recipes/demo/chat-tiny/tests/requirements-test.lock)
(cd recipes/demo/chat-tiny && PYTHONPATH="$OLDPWD/sdk/python/src" "$recipe" -m pytest -q -p no:cacheprovider)
# What the numbers of agent evaluations are held against is computed anew.
"$recipe" services/ingest/internal/evaluation/testdata/reference.py --check
