#!/usr/bin/env bash
# Generated code is what the protos make of it, the OpenAPI document is a good one, clients of the baseline do not
# break, and everything is formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/gen.sh
if [ -n "$(git status --porcelain -- gen)" ]; then
  echo "generated code is not up to date: run make gen" >&2
  git --no-pager diff --stat -- gen >&2
  exit 1
fi
scripts/openapi-lint.sh
scripts/api-gate.sh
unformatted=$(git ls-files -- '*.go' | grep -v '^gen/' | xargs gofmt -l)
if [ -n "$unformatted" ]; then echo "not formatted: $unformatted" >&2; exit 1; fi
echo "verify: generated code, the API's description and formats are up to date"
