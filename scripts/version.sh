#!/usr/bin/env bash
# Prints the version of this checkout for the linker: the tag of the commit, else the last tag with the
# number of commits since then, else only the commit. The suffix -dirty means uncommitted changes. Without
# a git repository it prints nothing.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
# Ignore a repository that merely contains the folder of an unpacked archive.
top=$(git rev-parse --show-toplevel 2> /dev/null) || exit 0
[ "$top" = "$(pwd -P)" ] || exit 0
git rev-parse --verify --quiet HEAD > /dev/null || exit 0
export GIT_OPTIONAL_LOCKS=0
if named=$(git describe --tags --match 'v[0-9]*' --abbrev=12 --dirty 2> /dev/null); then
	echo "$named"
else
	echo "dev-$(git describe --always --abbrev=12 --exclude '*' --dirty)"
fi
