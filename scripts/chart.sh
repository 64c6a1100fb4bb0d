#!/usr/bin/env bash
# Packs the Helm chart into FOLDER/signalbox-chart.tgz, for the images of a version: the tag of the images is its default.
#   scripts/chart.sh FOLDER VERSION
set -euo pipefail
out=$(realpath "$1") version=$2
cd "$(dirname "$0")/../deploy/helm"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R signalbox "$work"
# The version of a chart must be semantic, which the name of a commit without a tag is not.
semantic=${version#v}
case $semantic in
  [0-9]*.[0-9]*.[0-9]*) ;;
  *) semantic=0.0.0-$semantic ;;
esac
sed -i -e "s/^version: .*/version: $semantic/" -e "\$aappVersion: \"$version\"" "$work/signalbox/Chart.yaml"
# The same files give the same archive.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -cf - signalbox | gzip -n > "$out/signalbox-chart.tgz"
