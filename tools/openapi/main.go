// Command openapi generates gen/openapi/openapi.json, the OpenAPI 3.1 document of everything that the gateway
// answers, from a buf image, proto/http_routes.yaml and proto/openapi_overlay.yaml.
//
// The document says what the edge does: names in snake_case, integers as integers, what may be unset as nullable,
// enums by their words, protovalidate's bounds as JSON Schema, comments as descriptions. Requests are closed (no
// other property is taken), answers name every property that they always have. What a proto cannot say stands in
// the overlay: the routes that are no RPC, which must each have an operation there, and merge patches
// (RFC 7396, with lists appended to) for generated operations and schemas. The same input gives the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var in inputs
	flag.StringVar(&in.image, "image", "", "buf image with source info (a binary FileDescriptorSet with its imports)")
	flag.StringVar(&in.list, "http", "", "YAML file of the routes that no RPC annotation describes")
	flag.StringVar(&in.overlay, "overlay", "", "YAML file of what the protos cannot say")
	flag.StringVar(&in.out, "out", "", "folder to write openapi.json and openapi.go to")
	flag.Parse()
	if err := run(in); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
