#!/usr/bin/env bash
# Fails if the current API would break clients of the baseline. tools/apidiff compares the OpenAPI
# documents; buf compares the protos (names in JSON and field numbers). `api-gate.sh accept` makes the
# current API the baseline.
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=proto/baseline
buf=$(scripts/tools/buf.sh)
scripts/tools/protos.sh
if [ "${1:-}" = accept ]; then
  mkdir -p "$baseline"
  cp gen/openapi/openapi.json "$baseline/openapi.json"
  "$buf" build proto --exclude-source-info -o .cache/baseline.json
  python3 -c 'import json, sys; json.dump(json.load(sys.stdin), sys.stdout, indent=1); print()' \
    < .cache/baseline.json > "$baseline/image.json"
  echo "the current API is now the baseline"
  exit
fi
GOWORK=off go -C tools run ./apidiff -base "../$baseline/openapi.json" -head ../gen/openapi/openapi.json
"$buf" breaking proto --against "$baseline/image.json"
echo "api-gate: the API is compatible with the baseline"
