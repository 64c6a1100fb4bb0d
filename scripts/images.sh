#!/usr/bin/env bash
# Builds the programs of the control plane for amd64 and arm64, with the console and the documentation, and packs them
# into container images in dist/images: an archive of each program that `podman load` reads without a network, and the
# modules in each program as an SPDX document; and the Helm chart for these images. The same commit, built with the same version of Go, gives the same images.
#   CONSOLE=none   leaves the console and the documentation out
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/dist/images
if [ "${CONSOLE:-}" = none ]; then
  find gateway/internal/webpage/{console,docs} -mindepth 1 ! -name .gitkeep -delete
else
  scripts/console.sh
  scripts/docs.sh
fi
version=$(scripts/version.sh)
programs=(./services/.../cmd/... ./gateway/cmd/... ./cmd/signalbox-setup)
for arch in amd64 arm64; do
  echo "building for $arch" >&2
  mkdir -p "$out/bin/$arch"
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOAMD64=v1 GOARM64=v8.0 GOGC=off GOMEMLIMIT=2GiB go build -trimpath -buildvcs=false -o "$out/bin/$arch/" \
    -ldflags "-s -w -X github.com/signalbox-dev/signalbox/internal/version.build=$version" "${programs[@]}"
done
GOWORK=off go -C tools run ./images -programs "$out/bin" -out "$out" -version "$version" \
  -revision "$(git rev-parse HEAD)" -created "$(git show -s --format=%cI HEAD)"
scripts/chart.sh "$out" "$version"
