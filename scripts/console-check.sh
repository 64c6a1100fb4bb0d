#!/usr/bin/env bash
# Checks the web console: formatting and lint, types, unit tests, the keys of texts, and the sizes of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/console.sh prepare
node=$(scripts/tools/node.sh)
cd console
PATH=$(dirname "$node"):$PATH
export CONSOLE_CACHE=${TMPDIR:-/tmp}/signalbox-console-check-$$
trap 'rm -rf "$CONSOLE_CACHE"' EXIT
node node_modules/@biomejs/biome/bin/biome check --error-on-warnings
node node_modules/typescript/bin/tsc
node node_modules/vitest/vitest.mjs run
node scripts/texts.mjs
../scripts/console.sh
node scripts/sizes.mjs ../gateway/internal/webpage/console
