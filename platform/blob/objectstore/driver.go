// Package objectstore implements the object stores that the settings can select: a shared folder (FileStore) and a
// bucket of an S3 server (S3Store).
package objectstore

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Deps holds what Open needs besides the settings.
type Deps struct {
	PublicURL func() string // base of the fs driver's signed URLs
	Clock     clock.Clock
	IDs       *id.Source
	Log       *slog.Logger
}

// Opened is the object store of a process.
type Opened struct {
	Store blob.Store
	// Handler serves the store's signed URLs under Prefix. It is nil for the s3 driver, because the S3 server serves
	// them.
	Handler http.Handler
	Ready   func(ctx context.Context) error
	Close   func(ctx context.Context) error
}

// Open opens the store that cfg.Driver selects.
func Open(cfg conf.Blob, d Deps) (Opened, error) {
	limit := blob.Limit(cfg.MaxMB)
	switch cfg.Driver {
	case conf.BlobFS:
		if cfg.Root == "" {
			return Opened{}, conf.Errorf("BLOB_ROOT", "must be set for the driver fs")
		}
		store, err := OpenFiles(FileConfig{
			Root: cfg.Root, SigningKey: cfg.SigningKey, Limit: limit,
			PublicURL: d.PublicURL, Clock: d.Clock, IDs: d.IDs, Log: d.Log,
		})
		if err != nil {
			return Opened{}, err
		}
		return Opened{
			Store: store, Handler: store.Handler(), Ready: store.Ready,
			Close: func(context.Context) error { return store.Close() },
		}, nil
	case conf.BlobS3:
		store, err := OpenS3(S3Config{S3: cfg.S3, Limit: limit, Clock: d.Clock})
		if err != nil {
			return Opened{}, err
		}
		return Opened{Store: store, Ready: store.Ready, Close: func(context.Context) error { return nil }}, nil
	default:
		return Opened{}, fmt.Errorf("unknown blob driver %q", cfg.Driver)
	}
}
