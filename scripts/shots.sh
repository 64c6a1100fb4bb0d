#!/usr/bin/env bash
# Opens each address of the console in each look (light, dark and phone), and prints the path of one contact sheet of the
# screenshots. It also writes the picture of the README, which is not committed.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .cache/shots docs/images
out=$(cd .cache/shots && pwd -P)
rm -f "$out"/*.png "$out/index.html"
scripts/tools/postgres.sh > /dev/null
SHOTS=all go test -count=1 -timeout 30m -run 'TestConsole/[^/]+/routes' ./test/console
modules=$(scripts/tools/npm.sh test/identity/page)
NODE_MODULES=$modules "$(scripts/tools/node.sh)" test/console/sheet.mjs "$(scripts/tools/chromium.sh | tail -1)" "$out"
cp "$out/job-metrics-light-1280.png" docs/images/console.png
echo "$PWD/docs/images/console.png"
