// Command s3server runs versitygw on a folder, as the S3 server for the tests of the object store. It replaces
// versitygw's own program, which also links other storage backends and a test suite. These account for a third of the
// build time of that program.
//
//	ROOT_ACCESS_KEY=... ROOT_SECRET_KEY=... s3server ADDRESS DATA METADATA
//
// DATA and METADATA are existing, empty folders. The metadata is stored in files, because not every file system supports
// extended attributes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: s3server ADDRESS DATA METADATA")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}
