// Command pgserver runs the Postgres server that all test processes of one user share. pgtest starts it. When
// no test uses the server any longer, pgserver stops the server, removes its data and exits.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pgserver FOLDER POSTGRES CACHE")
		return 2
	}
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
