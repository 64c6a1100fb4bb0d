#!/usr/bin/env bash
# docs.sh [FOLDER] builds the documentation site into FOLDER, by default the folder from which the gateway embeds it.
# The site is built once for each state of its inputs and kept in .cache. Once Node and the packages are installed, the
# script needs no network. To see changes at once, link docs/site/node_modules to the output of scripts/tools/npm.sh docs/site,
# and run node_modules/.bin/astro dev there.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-gateway/internal/webpage/docs}
inputs() {
  find docs deploy/README.md ./*.md gateway/internal/webpage/asset scripts/docs.sh scripts/tools/node.sh scripts/tools/npm.sh \
    \( -name node_modules -o -name .astro -o -name dist -o -path docs/site/src/icon.svg -o -name favicon.svg \) -prune \
    -o -type f -print | LC_ALL=C sort
}
sum=$(inputs | xargs -d '\n' sha256sum | sha256sum | cut -c1-16)
if [ "$(cat "$out/.stamp" 2> /dev/null)" = "$sum" ]; then exit 0; fi
mkdir -p .cache/docs
cache=$(cd .cache/docs && pwd -P)
site=$cache/site-$sum
if [ ! -d "$site" ]; then
  node=$(scripts/tools/node.sh)
  modules=$(scripts/tools/npm.sh docs/site)
  . scripts/tools/lock.sh docs
fi
if [ ! -d "$site" ]; then
  build=$(mktemp -d "$cache/.build-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  # Astro takes files for its own only if they are near its folder, so the sources are beside the packages: .cache may be
  # a link to another place.
  cp -R docs/site "$build/source"
  ln -sfnT "$modules" "$build/source/node_modules"
  export ASTRO_TELEMETRY_DISABLED=1 NODE_ENV=production DOCS_TOP=$PWD DOCS_OUT=$build/site DOCS_CACHE=$build/cache
  if ! (cd "$build/source" && "$node" node_modules/astro/bin/astro.mjs build) > "$build/log" 2>&1; then
    cat "$build/log" >&2
    exit 1
  fi
  "$node" "$build/source/finish.mjs" "$build/site"
  "$node" "$build/source/check.mjs" "$build/site"
  find "$cache" -maxdepth 1 -name 'site-*' -mtime +7 -exec rm -rf {} +
  mv -T "$build/site" "$site"
fi
mkdir -p "$out"
find "$out" -mindepth 1 -maxdepth 1 ! -name .gitkeep -exec rm -rf {} +
cp -R "$site/." "$out/"
echo "$sum" > "$out/.stamp"
