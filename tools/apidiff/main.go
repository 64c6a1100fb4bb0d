// Command apidiff says what of an OpenAPI document breaks the clients of an earlier one, and fails where anything
// does. It reads the documents that tools/openapi makes.
//
// An answer breaks its clients where it loses a property (an optional one too), may be of another type or null, or
// is not given at all any more; a request where it is refused though it was taken: a new required property or
// parameter, a narrower type, bound or set of words, a property or route that is gone. What is added breaks nobody:
// routes, properties of answers, optional ones of requests, words of answers, statuses.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	base := flag.String("base", "", "the document that clients know")
	head := flag.String("head", "", "the document as it is now")
	flag.Parse()
	if err := run(*base, *head, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}
