// Command s3server is the S3 server that tests of the object store run against: versitygw on a folder. It is a program
// of its own because versitygw's links other storage backends and a test suite, which take a third of the time to build.
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

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// The defaults of versitygw's command line.
const (
	concurrency = 5000
	connections = 250_000
	requests    = 100_000
	partsMax    = 10_000
	copyMax     = 5 << 30
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

// serve serves the folder data at the address until ctx is done.
func serve(ctx context.Context, address, data, metadata string) error {
	sidecar, err := meta.NewSideCar(metadata)
	if err != nil {
		return fmt.Errorf("open the metadata folder: %w", err)
	}
	opts := posix.PosixOpts{SideCarDir: metadata, Concurrency: concurrency, CopyObjectThreshold: copyMax}
	opts.SetNewDirPerm(0o755)
	opts.SetNewFilePerm(0o644)
	backend, err := posix.New(data, sidecar, opts)
	if err != nil {
		return fmt.Errorf("open the data folder: %w", err)
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: os.Getenv("ROOT_ACCESS_KEY"), RootUserSecret: os.Getenv("ROOT_SECRET_KEY"),
		Ports: []string{address}, MaxConnections: connections, MaxRequests: requests, MultipartMaxParts: partsMax,
		KeepAlive: true, Quiet: true,
	})
}
