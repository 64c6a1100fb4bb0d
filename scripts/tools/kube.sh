#!/usr/bin/env bash
# Builds the API server of Kubernetes from its Go modules into .cache/kube, fetches etcd from Debian, and prints the
# folder of both. The build takes six minutes of CPU time, so only `make kube` uses it.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.36.3
dir=$PWD/.cache/kube/$version
if [ ! -x "$dir/kube-apiserver" ] || [ ! -x "$dir/etcd" ]; then
  . scripts/tools/lock.sh kube
fi
export GOWORK=off CGO_ENABLED=0
if [ ! -x "$dir/kube-apiserver" ]; then
  echo "building kube-apiserver $version into .cache/kube" >&2
  source=$dir/source
  mkdir -p "$source"
  # The module names its own parts by folders of its repository. The module proxy has each part as a module.
  module=$(cd "$source" && go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
  {
    printf 'module kube\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\n' "$version"
    sed -n "s|^\t\(k8s.io/[a-z0-9-]*\) => ./staging/.*|replace \1 => \1 v0.${version#1.}|p" "$module"
  } > "$source/go.mod"
  version_of=k8s.io/component-base/version
  (cd "$source" && GOFLAGS=-mod=mod go build -trimpath -o "$dir/kube-apiserver.new" \
    -ldflags "-s -w -X $version_of.gitVersion=v$version -X $version_of.gitMajor=1 -X $version_of.gitMinor=${version:2:2}" \
    k8s.io/kubernetes/cmd/kube-apiserver) >&2
  mv "$dir/kube-apiserver.new" "$dir/kube-apiserver"
fi
if [ ! -x "$dir/etcd" ]; then
  new=$dir/etcd.new
  rm -rf "$new" && mkdir -p "$new"
  (cd "$new" && { apt-get download -qq -o APT::Sandbox::User=root etcd-server || { apt-get update -qq && apt-get download -qq -o APT::Sandbox::User=root etcd-server; }; } >&2)
  dpkg -x "$new"/*.deb "$new"
  mv "$new/usr/bin/etcd" "$dir/etcd"
  rm -rf "$new"
fi
echo "$dir"
