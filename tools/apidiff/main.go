// Command apidiff reports which changes of an OpenAPI document break clients of an earlier version of the document. It
// exits with status 1 if there is such a change. It reads the documents that tools/openapi generates. oasdiff compares
// them, with our severity levels; docs/contributing/decisions/0001-openapi-diff.md has the reasons.
//
// A change of a response breaks clients if a property, a header, a media type or a success status is removed, even an
// optional property, or if a value may have another type, be null or be missing. A change of a request breaks clients
// if a request that was accepted before is now refused, for example because of a new required property, a narrower
// type, bound or enum, a removed property or route, or a higher role. Additions never break clients: routes, properties
// of responses, optional properties of requests, enum values, statuses.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	base := flag.String("base", "", "the baseline document")
	head := flag.String("head", "", "the current document")
	flag.Parse()
	if err := run(*base, *head, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}
