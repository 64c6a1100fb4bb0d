// Package driver opens the object store that the settings ask for.
package driver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/file"
	"github.com/signalbox-dev/signalbox/platform/blob/s3"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Deps is what the drivers need beside the settings.
type Deps struct {
	PublicURL func() string // base of the signed URLs of the fs driver
	Clock     clock.Clock
	IDs       *id.Source
	Log       *slog.Logger
}

// Opened is the object store of a process.
type Opened struct {
	Store blob.Store
	// Handler serves the store's signed URLs under file.Prefix; nil on S3, which
	// serves them itself.
	Handler http.Handler
	Ready   func(ctx context.Context) error
	Close   func(ctx context.Context) error
}

// Open opens the driver that cfg names.
func Open(cfg conf.Blob, d Deps) (Opened, error) {
	limit := blob.Limit(cfg.MaxMB)
	switch cfg.Driver {
	case conf.BlobFS:
		if cfg.Root == "" {
			return Opened{}, conf.Faultf("BLOB_ROOT", "must be set for the driver fs")
		}
		store, err := file.Open(file.Config{
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
		store, err := s3.Open(s3.Config{S3: cfg.S3, Limit: limit, Clock: d.Clock})
		if err != nil {
			return Opened{}, err
		}
		return Opened{Store: store, Ready: store.Ready, Close: func(context.Context) error { return nil }}, nil
	default:
		return Opened{}, fmt.Errorf("there is no blob driver %q", cfg.Driver)
	}
}
