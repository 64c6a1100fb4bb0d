#!/usr/bin/env bash
# The tests of the Python reporter and of the recipes, each in an environment of its own pinned packages.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
sdk=$(scripts/tools/venv.sh sdk sdk/python/requirements-dev.lock)
(cd sdk/python && PYTHONPATH=src "$sdk" -m pytest -q -p no:cacheprovider tests && "$sdk" -m mypy --no-incremental --strict src)
recipe=$(scripts/tools/venv.sh chat-tiny recipes/demo/chat-tiny/requirements.lock recipes/demo/chat-tiny/tests/requirements-test.lock)
(cd recipes/demo/chat-tiny && PYTHONPATH="$OLDPWD/sdk/python/src" "$recipe" -m pytest -q -p no:cacheprovider)
# What the numbers of agent evaluations are held against is computed anew.
"$recipe" services/ingest/internal/evaluation/testdata/reference.py --check
