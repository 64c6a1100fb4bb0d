#!/usr/bin/env bash
# Prints the path of a Python that has schemathesis and the validator of OpenAPI documents, as
# test/schemathesis/requirements.lock pins them; they come from PyPI into the project's cache. Callers at once may
# each build, and the first one's folder stays. To renew the lock:
#   uv pip compile --generate-hashes --no-header --no-emit-index-url --universal requirements.in -o requirements.lock
set -euo pipefail
cd "$(dirname "$0")/../.."
lock=test/schemathesis/requirements.lock
dir=$PWD/.cache/venv/schemathesis-$(sha256sum < "$lock" | cut -c1-16)
if [ ! -f "$dir/.complete" ]; then
  mkdir -p .cache/venv
  # An environment cannot be moved: it is built in its place, by one at a time.
  exec 9> "$dir.lock"
  flock 9
  if [ ! -f "$dir/.complete" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir" >&2
    "$dir/bin/python" -m pip install --quiet --require-hashes -r "$lock" >&2
    touch "$dir/.complete"
  fi
fi
echo "$dir/bin/python"
