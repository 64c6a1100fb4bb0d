#!/usr/bin/env bash
# Runs go test. A test that fails runs once more, alone, after all others. A test that fails again is an error, and so are
# six tests that fail, a panic and a hang, after which nothing runs again.
#   TEST_RERUNS=0    runs no test a second time
#   scripts/gotest.sh EVENTS "PACKAGE..." [ARGUMENT...]    writes the events of go test -json to the file EVENTS
# scripts/test-report.py EVENTS then lists the tests that passed only at the second time.
set -euo pipefail
cd "$(dirname "$0")/.."
events=$1 packages=$2
shift 2
gotestsum=$(scripts/tools/gotestsum.sh)
# Garbage collection takes a fifth of the time of compilers and linkers: let them collect only above 2 GiB. The tests
# run without these settings. Vet runs in make lint. Binaries without tables for debuggers (-w) take a third less time to
# link.
exec env GOGC=off GOMEMLIMIT=2GiB "$gotestsum" --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary output \
  --rerun-fails="${TEST_RERUNS:-1}" --rerun-fails-run-root-test --rerun-fails-max-failures=5 --jsonfile "$events" --packages "$packages" -- \
  -vet=off -ldflags=-w -exec 'env -u GOGC -u GOMEMLIMIT' "$@"
