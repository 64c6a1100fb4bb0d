#!/usr/bin/env bash
# All tests. Missing parts are an error, never a skip. Tools, servers and environments are fetched in the background while
# Go builds; a test that needs one runs its script, which waits for it.
#   TEST_SEED=N    which part of a long matrix is played (the seed of a run is printed; default: the commit's)
#   TEST_LONG=1    every matrix whole (make test-long)
#   RACE=1         with the race detector
set -euo pipefail
cd "$(dirname "$0")/.."
begun=$SECONDS
read -r load1 load5 load15 _ < /proc/loadavg
cpu() { awk '/^cpu / {print int(($2 + $3 + $4 + $7 + $8) / 100)}' /proc/stat; } # user, nice, system, interrupts
spent=$(cpu)
export TEST_SEED=${TEST_SEED:-$((16#$(git rev-parse --verify --quiet --short=7 HEAD || echo 1)))}
echo "load $load1 $load5 $load15 on $(nproc) cores; TEST_SEED=$TEST_SEED${TEST_LONG:+, every matrix whole}"
log=$PWD/.cache/log
mkdir -p "$log"
rm -f "$log"/*

# What tests throw away lies in memory where that has room: thousands of databases and installations come and go.
if [ -z "${TMPDIR:-}" ] && [ "$(stat -f -c %T /dev/shm 2> /dev/null)" = tmpfs ] &&
  [ "$(stat -f -c '%a * %S / 1048576' /dev/shm | xargs -I{} bash -c 'echo $(({}))')" -ge 8192 ] &&
  ! findmnt -n -o OPTIONS /dev/shm | grep -q noexec; then
  TMPDIR=$(mktemp -d /dev/shm/signalbox-test.XXXXXX)
  export TMPDIR
  chmod 755 "$TMPDIR"
fi
clean() { # ends the server of the databases, which would outlive the tests by some seconds
  kill "${fetching:-}" "${behind:-}" 2> /dev/null || true
  case ${TMPDIR:-} in /dev/shm/signalbox-test.*)
    local server
    server=$TMPDIR/signalbox-pgtest-$(id -u)
    if [ -e "$server/url" ]; then kill "$(cat "$server/keeper.lock")" 2> /dev/null || true; fi
    for _ in {1..100}; do
      [ -e "$server/url" ] || break
      sleep 0.1
    done
    rm -rf "$TMPDIR" || true ;;
  esac
}
trap clean EXIT

# fetch NAME COMMAND...: a part in the background, whose output is shown where it fails.
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
fetch_all() { # a test that needs a part which failed here tries again, and fails with its script's message
  tool postgres || true
  tool redis || true
  tool uv || true
  fetch environments bash -c 'scripts/tools/venv.sh sdk sdk/python/requirements-dev.lock &&
    scripts/tools/venv.sh chat-tiny recipes/demo/chat-tiny/{requirements.lock,tests/requirements-test.lock}' || true
  tool schemathesis || true
  tool node || true
  tool buf || true
  for lock in test/*/*/package-lock.json; do
    fetch "$(basename "$(dirname "$lock")")" scripts/tools/npm.sh "$(dirname "$lock")" || true
  done
  tool chromium || true
}
fetch_all &
fetching=$!

# A failure in one part does not keep the others from running: a run shows all that it finds.
failed=()
part() {
  local name=$1 t0=$SECONDS
  shift
  echo "-- $name"
  "$@" || failed+=("$name")
  echo "-- $name: $((SECONDS - t0)) s"
}
gotest() { # NAME ARGUMENT...: go test, with progress by package
  local name=$1
  shift
  # Collecting garbage is a fifth of what compilers spend; the tests run without this setting. Vet runs in make lint.
  GOGC=400 go test -json -vet=off -exec 'env -u GOGC' "${flags[@]}" "$@" 2>&1 | python3 scripts/progress.py "$log/$name.times"
}
# Tests write the SQL statements that they run into this folder, for the last part. It is kept, because Go does not run
# unchanged packages again. A new folder has a new name, which makes all of them run.
PGTEST_STATEMENTS=$(find "$PWD/.cache" -maxdepth 1 -name 'sql.*' -print -quit)
if [ -z "$PGTEST_STATEMENTS" ]; then PGTEST_STATEMENTS=$(mktemp -d "$PWD/.cache/sql.XXXXXX"); fi
export PGTEST_STATEMENTS
flags=(-timeout 15m)
if [ -n "${RACE:-}" ]; then flags=(-timeout 25m -race); fi

part "programs" make --no-print-directory build
# Both are small, and needed at once.
scripts/tools/postgres.sh > /dev/null
scripts/tools/redis.sh > /dev/null
# The S3 server is built, and the tests in Python run, beside Go's.
background() {
  local rc=0
  tool versitygw || true
  fetch "Python" scripts/python-test.sh || rc=1
  return $rc
}
background &
behind=$!
# Packages whose tests start whole installations come after the others, and those that wait for the S3 server last of these.
mapfile -t tested < <(go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep -v '^[^ ]*/gen/')
packages=() last=() installations=()
for line in "${tested[@]}"; do
  case $line in
    */test/testenv\ * | *\ */test/testenv*) installations+=("${line%% *}") ;;
    *\ */test/blobtest*) last+=("${line%% *}") ;;
    *) packages+=("${line%% *}") ;;
  esac
done
# Tests mostly wait, for databases and for each other: more of them at once than there are cores.
part "packages" gotest packages -p 3 -parallel 4 "${packages[@]}" "${last[@]}"
part "tools" env GOWORK=off GOGC=400 go -C tools test -vet=off ./...
wait "$behind" || failed+=("Python")
# The longest first: two cores carry two installations at a time.
part "whole installations" gotest installations -timeout 40m -p 2 ./test/e2e "${installations[@]}"
part "statements" env GOWORK=off go -C tools run ./sqlcover .. "$PGTEST_STATEMENTS"

echo "-- ten slowest packages, in seconds"
sort -rn "$log"/*.times | sed -n 1,10p
echo "-- $((SECONDS - begun)) s, $(($(cpu) - spent)) CPU seconds of this machine, load at the start $load1; TEST_SEED=$TEST_SEED"
for name in "${failed[@]}"; do echo "failed: $name" >&2; done
[ "${#failed[@]}" -eq 0 ]
