package recipe

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Seeder writes the built-in recipes to the catalog and the object store.
type Seeder struct {
	Pool         *pgxpool.Pool
	Store        Store
	Blobs        blob.Store
	Files        fs.FS
	ManifestName string
	Clock        clock.Clock
	Log          *slog.Logger

	once sync.Once
	// Done is closed when the catalog is complete. The creator of the Seeder must set it.
	Done chan struct{}
}

const (
	firstPause = 250 * time.Millisecond
	mostPause  = 30 * time.Second
)

// Run seeds the catalog, with retries until it succeeds, and then waits until ctx ends.
func (s *Seeder) Run(ctx context.Context) error {
	backoff := process.Backoff{Min: firstPause, Max: mostPause, Jitter: 0.5}
	for try := 0; ; try++ {
		err := s.RunOnce(ctx)
		if err == nil {
			<-ctx.Done()
			return nil
		}
		s.Log.WarnContext(ctx, "seeding the recipe catalog failed; retrying", "error", err)
		if err := backoff.Wait(ctx, s.Clock, try); err != nil {
			return err
		}
	}
}

// RunOnce updates the catalog to the recipes in this binary. It may be called at any time.
func (s *Seeder) RunOnce(ctx context.Context) error {
	all, err := readAll(s.Files, s.ManifestName)
	if err != nil {
		return err
	}
	for _, p := range all {
		// Store the bytes first, so that a row never refers to a missing tree.
		if err := s.Blobs.Put(ctx, p.TreeKey(), bytes.NewReader(p.tree), p.TreeBytes, p.TreeSHA256); err != nil {
			return err
		}
		p.LockedAt = s.Clock.Now()
		did, err := s.Store.Ship(ctx, s.Pool, p.Version)
		if err != nil {
			return err
		}
		switch did {
		case taken:
			s.Log.WarnContext(ctx, "a project has published a recipe of this name; that of this release cannot be used", "recipe", p.Name)
		case replaced:
			s.Log.WarnContext(ctx, "recipe changed without a new version; existing locks no longer match",
				"recipe", p.Name, "version", p.Manifest.Version, "digest", p.Digest)
		case unchanged, added:
		}
	}
	s.once.Do(func() { close(s.Done) })
	return nil
}

// Await returns when the catalog is complete, so that no recipe is reported as unknown before.
func (s *Seeder) Await(ctx context.Context) error {
	select {
	case <-s.Done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "catalog", "the recipe catalog is not ready yet").Wrap(ctx.Err())
	}
}
