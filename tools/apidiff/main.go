// Command apidiff reports which changes of an OpenAPI document break the clients of an earlier one, and fails if
// there is any. It reads the documents that tools/openapi generates. oasdiff compares them, with our severity levels;
// docs/contributing/decisions/0001-openapi-diff.md has the reasons.
//
// A change of a response breaks clients if a property is removed, even an optional one, if a value may have another
// type or be null, or if a success status is removed. A change of a request breaks clients if a request is now refused
// that was accepted before: a new required property or parameter, a narrower type, bound or enum, a removed property or
// route. Additions never break clients: routes, properties of responses, optional properties of requests, enum values
// of responses, statuses.
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
