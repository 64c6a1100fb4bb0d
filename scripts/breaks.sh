#!/usr/bin/env bash
# Plants each break of test/contract/breaks into a scratch copy and demands that the goldens which its head names turn
# red. A patch that does not apply any more, does not build, or leaves one of them green is a failure. While one break
# is played the next one is built.
#   scripts/breaks.sh [NAME...]     only these, without .patch
#   PLAY=CMD                        what runs the player, a lock of a busy machine for example
set -uo pipefail
cd "$(dirname "$0")/.."
top=$PWD
scratch=$(mktemp -d)
trap 'wait; git -C "$top" worktree remove --force "$scratch/tree" > /dev/null 2>&1; rm -rf "$scratch"' EXIT
chmod 711 "$scratch"
git worktree add --quiet --detach "$scratch/tree" HEAD
ln -s "$top/.cache" "$scratch/tree/.cache"
cd "$scratch/tree" || exit 1
go build -o bin/ ./cmd/... || exit 1
go test -c -o "$scratch/player" ./test/contract || exit 1
play() { # NAME GOLDEN...: against the program of that break
  local name=$1 log=$scratch/$1.log areas names golden green="" begun=$SECONDS
  shift
  mv "$scratch/$name" bin/signalboxd
  areas=$(printf '%s\n' "${@%%/*}" | sort -u | paste -sd'|')
  names=$(printf '%s\n' "${@#*/}" | paste -sd'|')
  (cd test/contract && ${PLAY:-} "$scratch/player" -test.timeout 8m -test.run "^TestContract\$/^single\$/^($areas)\$/^($names)\$") > "$log" 2>&1
  for golden in "$@"; do
    grep -q -- "--- FAIL: TestContract/single/$golden " "$log" || green+=" $golden"
  done
  if [ -z "$green" ]; then
    echo "red  $name: $* ($((SECONDS - begun)) s)"
  else
    echo "FAIL $name: stays green:$green"; tail -5 "$log"; touch "$scratch/failed"
  fi
}
playing=
for patch in "$top"/test/contract/breaks/*.patch; do
  name=$(basename "$patch" .patch)
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  mapfile -t goldens < <(sed -n 's/^golden: //p' "$patch")
  if ! git apply "$patch"; then echo "FAIL $name: does not apply"; touch "$scratch/failed"; continue; fi
  go build -o "$scratch/$name" ./cmd/signalboxd > "$scratch/build.log" 2>&1
  built=$?
  git apply -R "$patch"
  if [ $built -ne 0 ]; then echo "FAIL $name: does not build"; cat "$scratch/build.log"; touch "$scratch/failed"; continue; fi
  [ -z "$playing" ] || wait "$playing"
  play "$name" "${goldens[@]}" &
  playing=$!
done
wait
[ ! -e "$scratch/failed" ]
