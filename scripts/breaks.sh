#!/usr/bin/env bash
# breaks.sh applies each patch of test/contract/breaks to a scratch copy of the tree and requires that the
# golden tests listed in the patch's header fail. It is an error if a patch no longer applies, does not
# build, or leaves one of these tests passing. The next patch is built while the current one is tested.
#   scripts/breaks.sh [NAME...]     test only these patches; names without .patch
#   PLAY=CMD                        run the tests with this command, for example with flock on a busy machine
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
play() { # NAME GOLDEN...: runs the golden tests against signalboxd with the patch NAME
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
    echo "ok   $name: failed as required: $* ($((SECONDS - begun)) s)"
  else
    echo "FAIL $name: still passes:$green"; tail -5 "$log"; touch "$scratch/failed"
  fi
}
playing=
for patch in "$top"/test/contract/breaks/*.patch; do
  name=$(basename "$patch" .patch)
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  mapfile -t goldens < <(sed -n 's/^golden: //p' "$patch")
  if ! git apply "$patch"; then echo "FAIL $name: the patch does not apply"; touch "$scratch/failed"; continue; fi
  go build -o "$scratch/$name" ./cmd/signalboxd > "$scratch/build.log" 2>&1
  built=$?
  git apply -R "$patch"
  if [ $built -ne 0 ]; then echo "FAIL $name: the patched code does not build"; cat "$scratch/build.log"; touch "$scratch/failed"; continue; fi
  [ -z "$playing" ] || wait "$playing"
  play "$name" "${goldens[@]}" &
  playing=$!
done
wait
[ ! -e "$scratch/failed" ]
