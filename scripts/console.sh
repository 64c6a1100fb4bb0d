#!/usr/bin/env bash
# Builds the web console into gateway/internal/webpage/console, where Go embeds it. It does nothing if its sources have
# not changed since the last build. "scripts/console.sh prepare" only installs the packages and generates the types of the
# API. The script checks nothing: scripts/console-check.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/gateway/internal/webpage/console

sum=$({
  cat scripts/console.sh gen/openapi/openapi.json
  find console -path console/node_modules -prune -o -type f ! -path console/src/api/schema.d.ts ! -name '*.md' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
} | sha256sum | cut -d' ' -f1)
if [ "${1:-}" != prepare ] && [ -f "$out/index.html" ] && [ "$(cat "$out/.stamp" 2> /dev/null || true)" = "$sum" ]; then
  exit 0
fi

node=$(scripts/tools/node.sh)
modules=$(PATH=$(dirname "$node"):$PATH scripts/tools/npm.sh console)
ln -sfn "$modules" console/node_modules
cd console

# The types change only with the API.
api=$(sha256sum < ../gen/openapi/openapi.json | cut -c1-16)
if ! head -n 1 src/api/schema.d.ts 2> /dev/null | grep -q "$api"; then
  fresh=$(mktemp src/api/.schema-XXXXXX)
  trap 'rm -f "$fresh"' EXIT
  { echo "// Generated from the API document $api by scripts/console.sh."; "$node" node_modules/openapi-typescript/bin/cli.js ../gen/openapi/openapi.json 2> /dev/null; } > "$fresh"
  chmod 644 "$fresh"
  mv "$fresh" src/api/schema.d.ts
fi
if [ "${1:-}" = prepare ]; then exit 0; fi

# The folder is filled at the end, so that a failed build leaves the previous console in place.
build=$(mktemp -d "${TMPDIR:-/tmp}/console-XXXXXX")
trap 'rm -rf "$build"' EXIT
CONSOLE_OUT=$build CONSOLE_CACHE=$build/.cache "$node" node_modules/vite/bin/vite.js build --logLevel warn >&2
rm -rf "$build/.cache"
"$node" "$root/console/scripts/compress.mjs" "$build"
find "$out" -mindepth 1 ! -name .gitkeep -delete
cp -R "$build/." "$out/"
echo "$sum" > "$out/.stamp"
