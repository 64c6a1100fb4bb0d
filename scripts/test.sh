#!/usr/bin/env bash
# All tests: what they need is set up first, and a missing part is an error, never a skip.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/tools/postgres.sh > /dev/null
scripts/tools/redis.sh > /dev/null
scripts/tools/versitygw.sh > /dev/null
scripts/tools/uv.sh > /dev/null
scripts/tools/chromium.sh > /dev/null
scripts/tools/grpcurl.sh > /dev/null
for lock in test/*/*/package-lock.json; do scripts/tools/npm.sh "$(dirname "$lock")" > /dev/null; done
flags=(-timeout 25m)
if [ -n "${RACE:-}" ]; then flags+=(-race); fi
scripts/python-test.sh
# The packages that start whole installations run after the others: two cores carry one of those at a time.
mapfile -t packages < <(go list ./... | grep -v -e /gen/ -e /test/)
go test "${flags[@]}" "${packages[@]}"
GOWORK=off go -C tools test ./...
go test "${flags[@]}" -p 1 ./test/...
