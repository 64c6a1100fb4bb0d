#!/usr/bin/env bash
# Runs all tests. A missing tool or server is an error: no test is skipped. The script fetches tools,
# servers and environments in the background while Go builds. A test that needs a tool runs the tool's
# script, which waits for the installation.
#   TEST_SEED=N    selects the sample of each large test table (default: 1, so that each run has the same sample)
#   TEST_LONG=1    tests every row of each table (make test-long)
#   RACE=1         uses the race detector
set -euo pipefail
cd "$(dirname "$0")/.."
begun=$SECONDS
read -r load1 load5 load15 _ < /proc/loadavg
cpu() { awk '/^cpu / {print int(($2 + $3 + $4 + $7 + $8) / 100)}' /proc/stat; } # user, nice, system, interrupts
spent=$(cpu)
export TEST_SEED=${TEST_SEED:-1}
echo "load $load1 $load5 $load15 on $(nproc) cores; TEST_SEED=$TEST_SEED${TEST_LONG:+, every row of each test table}"
log=$PWD/.cache/log
mkdir -p "$log"
rm -f "$log"/*

# Use /dev/shm for temporary files if it has 8 GiB of free space: tests create and delete thousands of
# databases and installations.
if [ -z "${TMPDIR:-}" ] && [ "$(stat -f -c %T /dev/shm 2> /dev/null)" = tmpfs ] &&
  [ "$(stat -f -c '%a * %S / 1048576' /dev/shm | xargs -I{} bash -c 'echo $(({}))')" -ge 8192 ] &&
  ! findmnt -n -o OPTIONS /dev/shm | grep -q noexec; then
  TMPDIR=$(mktemp -d /dev/shm/signalbox-test.XXXXXX)
  export TMPDIR
  chmod 755 "$TMPDIR"
fi
clean() { # stop the background jobs and the database server, which would otherwise run on for some seconds
  kill "${fetching:-}" "${python:-}" "${modules:-}" "${beside:-}" 2> /dev/null || true
  case ${TMPDIR:-} in /dev/shm/signalbox-test.*)
    local server
    server=$TMPDIR/signalbox-pgserver-$(id -u)
    if [ -e "$server/url" ]; then kill "$(cat "$server/owner.lock")" 2> /dev/null || true; fi
    for _ in {1..100}; do
      [ -e "$server/url" ] || break
      sleep 0.1
    done
    rm -rf "$TMPDIR" || true ;;
  esac
}
trap clean EXIT

# Version managers put a shell script in place of python3, which takes ten times as long to start as the interpreter.
PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
export PATH

# fetch NAME COMMAND... runs the command and prints its output only if it fails.
fetch() {
  local name=$1 t0=$SECONDS
  shift
  if "$@" > "$log/$name" 2>&1; then
    echo "-- $name: done after $((SECONDS - begun)) s, took $((SECONDS - t0)) s"
  else
    echo "-- $name: failed"; cat "$log/$name"; return 1
  fi
}
tool() { fetch "$1" "scripts/tools/$1.sh"; }
fetch_all() { # ignores failures: a test that needs the tool runs its script again and reports the error
  tool postgres || true
  tool redis || true
  tool uv || true
  tool squawk || true
  tool slurm || true
  tool caddy || true
  fetch environments bash -c 'scripts/tools/venv.sh sdk sdk/python/requirements-dev.lock &&
    scripts/tools/venv.sh chat-tiny recipes/demo/chat-tiny/{requirements.lock,tests/requirements-test.lock} &&
    scripts/tools/venv.sh duckdb services/ingest/internal/httpapi/testdata/duckdb.lock' || true
  tool schemathesis || true
  tool node || true
  tool buf || true
  for lock in test/*/*/package-lock.json; do
    fetch "$(basename "$(dirname "$lock")")" scripts/tools/npm.sh "$(dirname "$lock")" || true
  done
  fetch docs scripts/tools/npm.sh docs/site || true
  tool chromium || true
}
fetch_all &
fetching=$!

# Run the other parts even if one fails, so that a run reports all failures.
failed=()
part() {
  local name=$1 t0=$SECONDS
  shift
  echo "-- $name"
  "$@" || failed+=("$name")
  echo "-- $name: $((SECONDS - t0)) s"
}
# See scripts/gotest.sh.
compiler=(GOGC=off GOMEMLIMIT=2GiB)
# Tests write the SQL statements that they run into this folder, for the last part. The folder is kept between runs,
# because Go does not repeat the tests of unchanged packages. A new folder has a new name, so Go repeats all tests.
PGTEST_STATEMENTS=$(find "$PWD/.cache" -maxdepth 1 -name 'sql.*' -print -quit)
if [ -z "$PGTEST_STATEMENTS" ]; then PGTEST_STATEMENTS=$(mktemp -d "$PWD/.cache/sql.XXXXXX"); fi
export PGTEST_STATEMENTS
flags=()
if [ -n "${RACE:-}" ]; then flags=(-race); fi

# Downloading modules takes as long as compiling the standard library, so do both at once. The Python tests need
# neither.
modules() {
  go list -deps -test ./... > /dev/null
  GOWORK=off go -C test/blobtest/s3server list -deps > /dev/null
  GOWORK=off go -C tools list -deps -test ./... > /dev/null
  GOWORK=off go -C test/chart list -deps -test ./... > /dev/null
}
fetch "Python" scripts/python-test.sh &
python=$!
fetch "modules" modules &
modules=$!
part "standard library" env "${compiler[@]}" go build net/http/{httptest,httputil,pprof} html/template database/sql go/types \
  encoding/{gob,xml} archive/tar log/slog os/exec
wait "$modules" || true # the build reports what is missing
part "programs" make --no-print-directory build
# The tests need Postgres and Redis from the start, and both are installed quickly.
scripts/tools/postgres.sh > /dev/null
scripts/tools/redis.sh > /dev/null
# Sort the packages: those that start complete installations, those that need the S3 server, and all others.
mapfile -t tested < <(go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep -v '^[^ ]*/gen/')
packages=() last=() installations=()
for line in "${tested[@]}"; do
  case $line in
    */test/console\ * | */test/guide\ * | */test/waysout\ * | */test/e2e\ * | */test/contract\ * | */test/identity\ * | */test/chaos\ *) ;; # the command below names these
    */test/load\ *) ;; # has only benchmarks
    */test/testenv\ * | *\ */test/testenv*) installations+=("${line%% *}") ;;
    *\ */test/blobtest*) last+=("${line%% *}") ;;
    *) packages+=("${line%% *}") ;;
  esac
done
# Build the S3 server, run the tests of the tools and of the Helm chart, and check the console while the other Go tests run. make build has
# already built the console. The tests of the chart run without the cache, because Go does not see changes outside of their module.
beside() {
  tool s3server || true
  local failures=0
  fetch "tools" env GOWORK=off "${compiler[@]}" go -C tools test -vet=off ./... || failures=1
  fetch "chart" env GOWORK=off "${compiler[@]}" go -C test/chart test -count=1 -vet=off -ldflags=-w ./... || failures=1
  if [ -d console ]; then fetch "console" scripts/console-check.sh || failures=1; fi
  return $failures
}
beside &
beside=$!
# Test two packages at a time: a third one only slows the others down on two cores. Go starts them in this order. Tests
# of installations wait for processes much of the time, so spread the long ones: the other packages use that time. The
# longest ones start early, so that none of them runs alone at the end.
third=$(((${#packages[@]} + 2) / 3))
ordered=(./test/e2e ./test/console "${packages[@]:0:third}" ./test/chaos ./test/guide "${packages[@]:third:third}" ./test/contract
  ./test/waysout ./test/identity "${packages[@]:2*third}" "${last[@]}" "${installations[@]}")
part "packages" scripts/gotest.sh "$log/packages.json" "${ordered[*]}" -timeout 20m -p 2 -parallel 4 "${flags[@]}"
wait "$beside" || failed+=("tools, chart or console")
wait "$python" || failed+=("Python")
part "statements" env GOWORK=off go -C tools run ./sqlcover .. "$PGTEST_STATEMENTS"

echo "-- $((SECONDS - begun)) s, $(($(cpu) - spent)) CPU seconds of this machine, load at the start $load1; TEST_SEED=$TEST_SEED"
scripts/test-report.py "$log/packages.json" || failed+=("packages without a failed test")
for name in "${failed[@]}"; do echo "failed: $name" >&2; done
[ "${#failed[@]}" -eq 0 ]
