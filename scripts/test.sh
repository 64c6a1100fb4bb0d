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
scripts/tools/schemathesis.sh > /dev/null
for lock in test/*/*/package-lock.json; do scripts/tools/npm.sh "$(dirname "$lock")" > /dev/null; done
flags=(-timeout 15m)
if [ -n "${RACE:-}" ]; then flags=(-timeout 25m -race); fi
# What is red in one part does not keep the others from telling: a run says all that it finds.
failed=()
part() { echo "-- $1"; shift; "$@" || failed+=("$*"); }
part "Python" scripts/python-test.sh
# The packages that start whole installations run after the others: two cores carry one of those at a time.
mapfile -t packages < <(go list ./... | grep -v -e /gen/ -e /test/)
part "packages" go test "${flags[@]}" "${packages[@]}"
part "tools" env GOWORK=off go -C tools test ./...
part "whole installations" go test "${flags[@]}" -timeout 25m -p 1 ./test/...
for command in "${failed[@]}"; do echo "failed: ${command:0:120}" >&2; done
[ "${#failed[@]}" -eq 0 ]
