#!/usr/bin/env bash
# Prints the folder of pasta. An agent without root uses pasta to connect the networks of its works. The script looks in
# PATH and in .cache. If pasta is in neither, it extracts Debian's package passt into .cache. It installs no system
# package.
set -euo pipefail
cd "$(dirname "$0")/../.."
if found=$(command -v pasta); then dirname "$found"; exit 0; fi
if [ ! -x .cache/pasta/usr/bin/pasta ]; then
  . scripts/tools/lock.sh pasta
fi
if [ ! -x .cache/pasta/usr/bin/pasta ]; then
  echo "no pasta found: fetching the package passt into .cache/pasta" >&2
  command -v apt-get > /dev/null || { echo "install pasta (https://passt.top): this system has no apt-get" >&2; exit 1; }
  tmp=$PWD/.cache/pasta.new
  rm -rf "$tmp" && mkdir -p "$tmp"
  (cd "$tmp" && { apt-get download -qq passt || { apt-get update -qq && apt-get download -qq passt; }; } >&2)
  dpkg -x "$tmp"/passt_*.deb "$tmp"
  rm -rf .cache/pasta && mv "$tmp" .cache/pasta
fi
echo "$PWD/.cache/pasta/usr/bin"
