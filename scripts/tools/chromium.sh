#!/usr/bin/env bash
# Prints the path of a Chromium for the tests that need a real browser. It uses the variable CHROMIUM or a
# browser in PATH. If it finds no browser and runs as root (as in CI), it installs Debian's package. It also installs a
# font with Chinese characters, because screenshots would show boxes without one.
set -euo pipefail
installs() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }
has_font() { command -v fc-list > /dev/null && [ -n "$(fc-list :lang=zh-cn family)" ]; }
install() {
  {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
  } >&2
}
# The tests pass without the font, so its absence is only a warning.
need_font() {
  if has_font; then return 0; fi
  if installs; then
    exec 9> /tmp/signalbox-chromium.lock
    flock 9
    has_font || install fontconfig fonts-noto-cjk || true
    exec 9>&-
  fi
  has_font || echo "no Chinese font: screenshots will show boxes; install one (Debian: apt-get install fonts-noto-cjk)" >&2
}
if [ -n "${CHROMIUM:-}" ]; then
  [ -x "$CHROMIUM" ] || { echo "CHROMIUM=$CHROMIUM is not an executable file" >&2; exit 1; }
  need_font
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
if find_browser > /dev/null; then
  need_font
  find_browser
  exit 0
fi
if ! installs; then
  echo "no Chromium: install one (Debian: apt-get install --no-install-recommends chromium) or set CHROMIUM to its path" >&2
  exit 1
fi
# Concurrent callers wait for one installation.
exec 9> /tmp/signalbox-chromium.lock
flock 9
if find_browser; then exit 0; fi
install chromium fontconfig fonts-liberation fonts-noto-cjk
find_browser
