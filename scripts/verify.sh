#!/usr/bin/env bash
# Checks that commits have the form of CONTRIBUTING.md, generated code matches the protos, the OpenAPI document is valid,
# the API is compatible with its baseline, each go.mod and go.sum is tidy, all Go files are formatted, and the
# command line builds for all its platforms.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/commits.sh
scripts/gen.sh
if [ -n "$(git status --porcelain -- gen)" ]; then
  echo "generated code is not up to date: run make gen" >&2
  git --no-pager diff --stat -- gen >&2
  exit 1
fi
scripts/openapi-lint.sh
scripts/api-gate.sh
while read -r module; do
  if ! GOWORK=off go -C "$(dirname "$module")" mod tidy -diff; then
    echo "$module is not tidy: run GOWORK=off go -C $(dirname "$module") mod tidy" >&2
    exit 1
  fi
done < <(git ls-files -- go.mod '*/go.mod')
unformatted=$(git ls-files -- '*.go' | grep -v '^gen/' | xargs gofmt -l)
if [ -n "$unformatted" ]; then echo "not formatted: $unformatted" >&2; exit 1; fi
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
  GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/signalbox ||
    { echo "signalbox does not build for $platform" >&2; exit 1; }
done
echo "verify: commits, generated code, the OpenAPI document, modules, formatting and the builds of signalbox are in order"
