#!/usr/bin/env bash
# Looks for tests that fail now and then. Beside two busy loops, it runs the tests of each unit package again and again for
# STRESS_SECONDS (default 30), and then all tests once, with a new sample of each large test table. A test that fails is
# not run a second time.
#   scripts/stress.sh [PACKAGE...]    only runs these packages again and again
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${STRESS_SECONDS:-30}
export TEST_SEED=${TEST_SEED:-$RANDOM}
echo "TEST_SEED=$TEST_SEED, $seconds s for each package"
make --no-print-directory build
scripts/tools/postgres.sh > /dev/null
scripts/tools/redis.sh > /dev/null
scripts/tools/s3server.sh > /dev/null
dir=$(mktemp -d "${TMPDIR:-/dev/shm}/signalbox-stress.XXXXXX")
chmod 755 "$dir" # some tests run as another user
mkdir -p "$dir/tmp" && chmod 755 "$dir/tmp"
export TMPDIR=$dir/tmp
loops=()
clean() { kill "${loops[@]}" 2> /dev/null || true; rm -rf "$dir"; }
trap clean EXIT
for _ in 1 2; do
  while :; do :; done &
  loops+=($!)
done
failed=()
# again IMPORT FOLDER runs the tests of one package until the time is over. It prints the output of each run that failed.
again() {
  local name=${1#github.com/signalbox-dev/signalbox/} runs=0 red=0 until
  GOGC=off GOMEMLIMIT=2GiB go test -c -vet=off -o "$dir/test" "$1" || { failed+=("$name"); return; }
  [ -e "$dir/test" ] || return 0 # the package has no tests
  until=$((SECONDS + seconds))
  while [ "$runs" = 0 ] || [ "$SECONDS" -lt "$until" ]; do
    runs=$((runs + 1))
    cpus=$((runs % 2 ? 8 : 2)) # other counts of threads meet other races
    # A shell's background job ignores SIGINT; programs that the tests start must not inherit this.
    if ! (cd "$2" && env --default-signal "$dir/test" -test.timeout 12m -test.cpu "$cpus" -test.parallel 4) > "$dir/output" 2>&1; then
      red=$((red + 1))
      sed "s#^#$name: #" "$dir/output" | tail -n 200
    fi
  done
  rm -f "$dir/test"
  echo "-- $name: $runs runs, $red failed"
  if [ "$red" -gt 0 ]; then failed+=("$name ($red of $runs runs)"); fi
}
unit=$(go list -f '{{.ImportPath}} {{.Dir}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' "${@:-./...}" |
  awk '$1 !~ "/gen/" && $0 !~ "/test/testenv( |$)" {print $1, $2}')
while read -r package folder; do again "$package" "$folder"; done <<< "$unit"
if [ $# = 0 ]; then
  TEST_RERUNS=0 scripts/test.sh || failed+=("all tests, TEST_SEED=$TEST_SEED")
fi
for name in "${failed[@]}"; do echo "failed: $name" >&2; done
[ "${#failed[@]}" -eq 0 ]
