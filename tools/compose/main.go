// Command compose prints a Compose file as Compose itself reads it: as JSON, with its variables, anchors and
// environment files resolved. It rejects unknown keys, invalid values and references to what the file does not define.
// The variables come only from the command line, not from the environment or from a file .env.
//
//	compose FILE [NAME=VALUE...]
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE [NAME=VALUE...]")
		os.Exit(2)
	}
	project, err := load(context.Background(), os.Args[1], os.Args[2:])
	if err == nil {
		err = write(project)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compose:", err)
		os.Exit(1)
	}
}
