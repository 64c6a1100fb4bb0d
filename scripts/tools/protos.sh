#!/usr/bin/env bash
# Copies the third-party .proto files that ours import from the Go module cache to .cache/proto. None of
# them is committed, and no schema registry is needed.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GOWORK=off GOFLAGS=-mod=mod
module_dir() { # MODULE@VERSION: prints the module's folder in the module cache
  go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}
out=.cache/proto
stamp=$out/.stamp-1
[ -f "$stamp" ] && exit 0
. scripts/tools/lock.sh protos
[ -f "$stamp" ] && exit 0
cd tools
apis=$(module_dir github.com/grpc-ecosystem/grpc-gateway@v1.16.0)/third_party/googleapis
validate=$(module_dir github.com/bufbuild/protovalidate@v1.2.2)/proto/protovalidate
openapi=$(module_dir github.com/grpc-ecosystem/grpc-gateway/v2@v2.31.0)
cd ..
rm -rf "$out"
mkdir -p "$out/google/api" "$out/google/rpc" "$out/buf/validate" "$out/protoc-gen-openapiv2/options"
cp "$apis"/google/api/{annotations,http,httpbody}.proto "$out/google/api/"
cp "$apis"/google/rpc/{status,error_details,code}.proto "$out/google/rpc/"
cp "$validate"/buf/validate/*.proto "$out/buf/validate/"
cp "$openapi"/protoc-gen-openapiv2/options/*.proto "$out/protoc-gen-openapiv2/options/"
chmod -R u+w "$out"
touch "$stamp"
