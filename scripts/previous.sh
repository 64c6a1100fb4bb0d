#!/usr/bin/env bash
# Builds the programs of an earlier commit, by default of the previous version (deploy/previous), and prints the path of
# their folder.
#   scripts/previous.sh [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-$(grep -v '^#' deploy/previous | head -n 1)}
commit=$(git rev-parse --verify --quiet "$name^{commit}") || {
  echo "this clone has no commit $name: run git fetch origin $name" >&2
  exit 1
}
out=$PWD/.cache/previous/$commit
if [ ! -x "$out/signalbox-agent" ]; then
  source=$(mktemp -d)
  trap 'rm -rf "$source"' EXIT
  git archive "$commit" | tar -x -C "$source"
  mkdir -p "$out"
  (cd "$source" && go build -o "$out/" ./cmd/... ./services/.../cmd/... ./gateway/cmd/... ./agent/cmd/...) >&2
fi
echo "$out"
