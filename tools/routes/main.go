// Command routes generates gen/route from a buf image and proto/http_extra_routes.yaml: the table of everything that
// the gateway serves, and the registration of every service in the table.
//
// Package surface reads the input, and rejects a schema that the gateway could not serve safely.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	image := flag.String("image", "", "buf image (a binary FileDescriptorSet with its imports)")
	extra := flag.String("http", "", "YAML file of the routes that no RPC annotation describes")
	out := flag.String("out", "", "folder to write table.go and register.go to")
	flag.Parse()
	if err := run(*image, *extra, *out); err != nil {
		fmt.Fprintln(os.Stderr, "routes:", err)
		os.Exit(1)
	}
}
