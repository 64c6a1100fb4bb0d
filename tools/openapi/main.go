// Command openapi generates gen/openapi/openapi.json, the OpenAPI 3.1 document of everything that the gateway serves,
// from a buf image, proto/http_extra_routes.yaml and proto/openapi_overlay.yaml.
//
// The document describes the gateway's JSON: names in snake_case, integers as numbers, unset values as null, enums by
// their JSON values, protovalidate's bounds as JSON Schema, comments as descriptions. Requests are closed (no other
// property is accepted); responses list every property that is always present. The overlay contains what a proto
// cannot express: the operations of routes that are not RPCs, which are required, and merge patches (RFC 7396, but
// lists are appended) for generated operations and schemas. Examples that the overlay does not contain come from the
// golden tests. The same input gives the same bytes.
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
	flag.StringVar(&in.overlay, "overlay", "", "YAML file with the parts that the protos cannot express")
	flag.StringVar(&in.goldens, "goldens", "", "folder of the golden tests, from which the examples are taken")
	flag.StringVar(&in.out, "out", "", "folder to write openapi.json and openapi.go to")
	flag.Parse()
	if err := run(in); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
