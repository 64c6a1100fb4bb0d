#!/usr/bin/env bash
# Fails where clients of the baseline would break: the OpenAPI document is compared by tools/apidiff, the protos by buf
# (names in JSON and on the wire). `api-gate.sh accept` moves the baseline to what is there now.
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
  echo "the baseline is what is there now"
  exit
fi
GOWORK=off go -C tools run ./apidiff -base "../$baseline/openapi.json" -head ../gen/openapi/openapi.json
"$buf" breaking proto --against "$baseline/image.json"
echo "api-gate: clients of the baseline go on"
