#!/usr/bin/env bash
# Plants each break of test/contract/breaks into a scratch copy and demands that the goldens which its head names turn
# red. A patch that does not apply any more, does not build, or leaves one of them green is a failure.
#   scripts/breaks.sh [NAME...]     only these, without .patch
set -uo pipefail
cd "$(dirname "$0")/.."
top=$PWD
scratch=$(mktemp -d)
trap 'git -C "$top" worktree remove --force "$scratch/tree" > /dev/null 2>&1; rm -rf "$scratch"' EXIT
git worktree add --quiet --detach "$scratch/tree" HEAD
mkdir -p .cache && ln -s "$top/.cache" "$scratch/tree/.cache"
cd "$scratch/tree" || exit 1
go build -o bin/ ./cmd/... || exit 1
failed=0
play() { # NAME GOLDEN... -> the names of those that are red, one a line; the log stays in $scratch/NAME.log
  local name=$1 golden areas names
  shift
  areas=$(printf '%s\n' "${@%%/*}" | sort -u | paste -sd'|')
  names=$(printf '%s\n' "${@#*/}" | paste -sd'|')
  go test ./test/contract -count=1 -timeout 8m -run "^TestContract\$/^single\$/^($areas)\$/^($names)\$" > "$scratch/$name.log" 2>&1
  for golden in "$@"; do
    if grep -q -- "--- FAIL: TestContract/single/$golden " "$scratch/$name.log"; then echo "$golden"; fi
  done
}
for patch in "$top"/test/contract/breaks/*.patch; do
  name=$(basename "$patch" .patch)
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  mapfile -t goldens < <(sed -n 's/^golden: //p' "$patch")
  if ! git apply "$patch"; then echo "FAIL $name: does not apply"; failed=1; continue; fi
  if go build -o bin/ ./cmd/signalboxd > "$scratch/build.log" 2>&1; then
    red=$(play "$name" "${goldens[@]}")
    green=$(comm -23 <(printf '%s\n' "${goldens[@]}" | sort) <(sort <<< "$red"))
    if [ -z "$green" ]; then
      echo "red  $name: $(paste -sd' ' <<< "$red")"
    else
      echo "FAIL $name: stays green: $(paste -sd' ' <<< "$green")"; tail -5 "$scratch/$name.log"; failed=1
    fi
  else
    echo "FAIL $name: does not build"; cat "$scratch/build.log"; failed=1
  fi
  git apply -R "$patch"
done
exit $failed
