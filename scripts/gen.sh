#!/usr/bin/env bash
# Regenerates gen/ from proto/: Go messages, gRPC, gateway, the route table and the OpenAPI document.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=$(scripts/tools/buf.sh)
scripts/tools/protos.sh
mkdir -p .cache/bin
for tool in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc \
  github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway; do
  GOWORK=off go build -modfile=tools/go.mod -o .cache/bin/ "$tool"
done
rm -rf gen/signalbox
PATH="$PWD/.cache/bin:$PATH" "$buf" generate
# The route table contains the HTTP bindings of the RPCs and the routes of proto/http_extra_routes.yaml, which no
# binding describes.
"$buf" build -o .cache/image.binpb
GOWORK=off go -C tools run ./routes -image ../.cache/image.binpb -http ../proto/http_extra_routes.yaml -out ../gen/route
# The OpenAPI document describes the protos. proto/openapi_overlay.yaml supplies what the protos cannot
# express, and the golden tests the examples.
GOWORK=off go -C tools run ./openapi -image ../.cache/image.binpb -http ../proto/http_extra_routes.yaml \
  -overlay ../proto/openapi_overlay.yaml -goldens ../test/contract/golden -out ../gen/openapi
