#!/usr/bin/env bash
# Runs the tests of the Python reporter and of the recipes. Each has its own environment with pinned
# packages.
set -euo pipefail
cd "$(dirname "$0")/.."
# Like go test, do not repeat tests that passed with the same files.
digest=$(find sdk/python recipes services/ingest/internal/evaluation scripts/python-test.sh \
  -name '.*' -prune -o -name __pycache__ -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
passed=$PWD/.cache/python-test-$digest${TEST_LONG:+-long}
if [ -f "$passed" ]; then echo "ok (cached)"; exit 0; fi
# Python stores compiled modules outside the source folders.
export OMP_NUM_THREADS=1 PYTHONPYCACHEPREFIX=$PWD/.cache/pycache
sdk=$(scripts/tools/venv.sh sdk sdk/python/requirements-dev.lock)
(cd sdk/python && PYTHONPATH=src "$sdk" -m pytest -q -p no:cacheprovider tests && "$sdk" -m mypy --no-incremental)
(cd recipes/testing && PYTHONPATH="$OLDPWD/sdk/python/src" "$sdk" -m pytest -q -p no:cacheprovider test_manifests.py test_rewards.py)
recipe=$(scripts/tools/venv.sh chat-tiny recipes/demo/chat-tiny/requirements.lock recipes/demo/chat-tiny/tests/requirements-test.lock)
(cd recipes/demo/chat-tiny && PYTHONPATH="$OLDPWD/sdk/python/src" "$recipe" -m pytest -q -p no:cacheprovider)
# Fine-tune a tiny base with PyTorch: the loss, a pause, the exports in PEFT, Transformers and llama.cpp. All recipes, also
# in several processes, with TEST_LONG.
training=$(scripts/tools/venv.sh training recipes/sft/lora/requirements.lock recipes/demo/chat-tiny/tests/requirements-test.lock)
part=(-k 'sft_lora or invalid_inputs or precision or cannot_be_exported')
[ -z "${TEST_LONG:-}" ] || part=(test_processes.py)
(cd recipes/testing && PYTHONPATH="$OLDPWD/sdk/python/src" "$training" -m pytest -q -p no:cacheprovider test_training.py "${part[@]}")
# Recompute the reference values of agent evaluations and compare them.
"$recipe" services/ingest/internal/evaluation/testdata/reference.py --check
rm -f .cache/python-test-*
touch "$passed"
