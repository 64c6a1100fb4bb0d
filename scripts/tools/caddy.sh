#!/usr/bin/env bash
# Prints the path of Caddy, with which the tests of deploy/compose terminate TLS: the one in PATH, or that of Debian's
# package, which the script extracts into .cache. It installs no system package.
set -euo pipefail
cd "$(dirname "$0")/../.."
if command -v caddy > /dev/null; then command -v caddy; exit 0; fi
dir=$PWD/.cache/caddy
if [ ! -x "$dir/usr/bin/caddy" ]; then
  . scripts/tools/lock.sh caddy
fi
if [ ! -x "$dir/usr/bin/caddy" ]; then
  echo "fetching Caddy into .cache/caddy" >&2
  if ! command -v apt-get > /dev/null || ! command -v dpkg > /dev/null; then
    echo "Caddy is missing, and this system has no apt-get; install Caddy" >&2
    exit 1
  fi
  new=$dir.new
  rm -rf "$new" && mkdir -p "$new"
  fetch() { apt-get download -qq -o APT::Sandbox::User=root caddy; }
  (cd "$new" && { fetch || { apt-get update -qq && fetch; }; } >&2)
  dpkg -x "$new"/*.deb "$new"
  rm "$new"/*.deb
  "$new/usr/bin/caddy" version >&2
  rm -rf "$dir" && mv "$new" "$dir"
fi
echo "$dir/usr/bin/caddy"
