package main

import (
	"context"
	"fmt"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// These are the defaults of versitygw's command line.
const (
	concurrency = 5000
	connections = 250_000
	requests    = 100_000
	partsMax    = 10_000
	copyMax     = 5 << 30
)

// serve serves the given data folder at the address until ctx is done.
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
