// Command keeper owns the Postgres server that the test processes of one user
// share: pgtest starts it, it ends the server and itself when no test holds a
// share any more, and it leaves no data behind.
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
		fmt.Fprintln(os.Stderr, "usage: keeper FOLDER POSTGRES CACHE")
		return 2
	}
	if err := keep(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
