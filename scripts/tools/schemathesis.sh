#!/usr/bin/env bash
# Prints the path of a Python that has schemathesis and the validator of OpenAPI documents, as
# test/schemathesis/requirements.lock pins them.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/tools/venv.sh schemathesis test/schemathesis/requirements.lock
