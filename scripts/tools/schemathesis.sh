#!/usr/bin/env bash
# Prints the path of a Python interpreter with schemathesis and openapi-spec-validator, in the versions of
# test/schemathesis/requirements.lock.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/tools/venv.sh schemathesis test/schemathesis/requirements.lock
