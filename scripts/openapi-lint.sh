#!/usr/bin/env bash
# Checks the OpenAPI document against the rules of tools/redocly/redocly.yaml and the meta-schema of
# OpenAPI 3.1.
set -euo pipefail
cd "$(dirname "$0")/.."
document=gen/openapi/openapi.json
node=$(scripts/tools/node.sh)
modules=$(scripts/tools/npm.sh tools/redocly)
REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true CI=true \
  "$node" "$modules/@redocly/cli/bin/cli.js" lint "$document" --config tools/redocly/redocly.yaml
"$(scripts/tools/schemathesis.sh)" -m openapi_spec_validator "$document"
