// Command pgserver runs the Postgres server that all test processes of one user share. pgtest starts it. When
// no test uses the server any longer, pgserver stops the server, removes its data and exits. With the argument create it
// only creates an empty cluster, which tests copy.
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
	if len(os.Args) != 5 {
		return usage()
	}
	command, ok := map[string]func(ctx context.Context, dir, setting, cache string) error{"serve": serve, "create": create}[os.Args[1]]
	if !ok {
		return usage()
	}
	if err := command(ctx, os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func usage() int {
	fmt.Fprintln(os.Stderr, "usage: pgserver serve|create FOLDER POSTGRES CACHE")
	return 2
}
