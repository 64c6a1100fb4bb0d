#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 10m), two at a time. `scripts/fuzz.sh "./PACKAGE FuzzNAME"...` runs
# only these targets. go stores a failing input in the package's testdata/fuzz: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
all=$(git grep -hoE --full-name '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | wc -l)
targets=()
while IFS=: read -r file name; do
  targets+=("./$(dirname "$file") ${name#func }")
done < <(git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go')
[ "${#targets[@]}" = "$all" ]
time=${FUZZTIME:-10m}
if [ $# -gt 0 ]; then
  targets=("$@")
fi
scripts/tools/postgres.sh > /dev/null
one() {
  out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 "$1" 2>&1) || { printf '%s\n' "$out"; return 1; }
  # The last progress line contains the number of executions.
  printf '%s %s: %s\n' "$1" "$2" "$(grep -o 'execs: [0-9]*.*' <<< "$out" | tail -1)"
}
export -f one
export time
printf '%s\n' "${targets[@]}" | xargs -P 2 -L 1 bash -c 'one "$0" "$1"'
