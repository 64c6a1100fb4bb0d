#!/usr/bin/env bash
# The version of this checkout, for the linker: the tag where the commit has one, else the last tag and how far
# it is behind, else the commit alone; -dirty where files differ from it. Nothing where there is no git.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
# Not of a repository that only happens to lie around an unpacked archive.
top=$(git rev-parse --show-toplevel 2> /dev/null) || exit 0
[ "$top" = "$(pwd -P)" ] || exit 0
git rev-parse --verify --quiet HEAD > /dev/null || exit 0
export GIT_OPTIONAL_LOCKS=0
if named=$(git describe --tags --match 'v[0-9]*' --abbrev=12 --dirty 2> /dev/null); then
	echo "$named"
else
	echo "dev-$(git describe --always --abbrev=12 --exclude '*' --dirty)"
fi
