#!/usr/bin/env bash
# Prints the path of a Chromium for the tests that need a real browser. It uses the variable CHROMIUM or a
# browser in PATH. If it finds no browser and runs as root (as in CI), it installs Debian's package.
set -euo pipefail
if [ -n "${CHROMIUM:-}" ]; then
  [ -x "$CHROMIUM" ] || { echo "CHROMIUM=$CHROMIUM is not an executable file" >&2; exit 1; }
  echo "$CHROMIUM"
  exit 0
fi
find_browser() {
  local name
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name"; then return 0; fi
  done
  return 1
}
if find_browser; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "no Chromium: install one (Debian: apt-get install --no-install-recommends chromium) or set CHROMIUM to its path" >&2
  exit 1
fi
# Concurrent callers wait for one installation.
exec 9> /tmp/signalbox-chromium.lock
flock 9
if find_browser; then exit 0; fi
{
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium fontconfig fonts-liberation
} >&2
find_browser
