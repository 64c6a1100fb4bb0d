#!/usr/bin/env bash
# Builds the programs into bin, with the console, which the gateway embeds. It compiles what does not depend on the
# console while the console is built. A console that cannot be built is an error: programs without it would be released
# unnoticed.
#   CONSOLE=none   leaves the console out; the server then shows a page that names make build
set -euo pipefail
cd "$(dirname "$0")/.."
embedded=gateway/internal/webpage/console
programs=(./cmd/... ./services/.../cmd/... ./gateway/cmd/... ./agent/cmd/...)
export GOGC=off GOMEMLIMIT=2GiB

if [ "${CONSOLE:-}" = none ]; then
  find "$embedded" -mindepth 1 ! -name .gitkeep -delete
elif [ -d console ]; then # older commits have no console
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  scripts/console.sh > "$log" 2>&1 &
  building=$!
  for _ in {1..10}; do # an unchanged console takes a fraction of a second
    kill -0 "$building" 2> /dev/null || break
    sleep 0.1
  done
  if kill -0 "$building" 2> /dev/null; then
    go build ./agent/... ./internal/... ./services/... || { wait "$building" || true; exit 1; }
  fi
  if ! wait "$building" || [ ! -s "$embedded/index.html" ]; then
    cat "$log" >&2
    echo "the console was not built; CONSOLE=none make build leaves it out" >&2
    exit 1
  fi
fi
mkdir -p bin
go build -o bin/ -ldflags "-s -w -X github.com/signalbox-dev/signalbox/internal/version.build=$(scripts/version.sh)" "${programs[@]}"
