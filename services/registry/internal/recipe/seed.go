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
	"github.com/signalbox-dev/signalbox/platform/run"
)

// Seeder lays the built-in recipes into the catalog and the object store.
type Seeder struct {
	Pool         *pgxpool.Pool
	Store        Store
	Blobs        blob.Store
	Files        fs.FS
	ManifestName string
	Clock        clock.Clock
	Log          *slog.Logger

	once sync.Once
	// Done is closed when the catalog is laid out. The maker makes it.
	Done chan struct{}
}

const (
	firstPause = 250 * time.Millisecond
	mostPause  = 30 * time.Second
)

// Run seeds once, trying again until it is done, and then waits for the end.
func (s *Seeder) Run(ctx context.Context) error {
	backoff := run.Backoff{Min: firstPause, Max: mostPause, Jitter: 0.5}
	for try := 0; ; try++ {
		err := s.RunOnce(ctx)
		if err == nil {
			<-ctx.Done()
			return nil
		}
		s.Log.WarnContext(ctx, "the catalog cannot be laid out yet", "error", err)
		if err := backoff.Wait(ctx, s.Clock, try); err != nil {
			return err
		}
	}
}

// RunOnce brings the catalog to what this program ships. It may be run at any time.
func (s *Seeder) RunOnce(ctx context.Context) error {
	all, err := readAll(s.Files, s.ManifestName)
	if err != nil {
		return err
	}
	for _, p := range all {
		// The bytes come first: a row never names a tree that is not there.
		if err := s.Blobs.Put(ctx, p.TreeKey(), bytes.NewReader(p.tree), p.TreeBytes, p.TreeSHA256); err != nil {
			return err
		}
		p.LockedAt = s.Clock.Now()
		replaced, err := s.Store.Put(ctx, s.Pool, p.Version)
		if err != nil {
			return err
		}
		if replaced {
			s.Log.WarnContext(ctx, "a recipe has changed without a new version; older locks of it no longer fit",
				"recipe", p.Name, "version", p.Manifest.Version, "digest", p.Digest)
		}
	}
	s.once.Do(func() { close(s.Done) })
	return nil
}

// Await answers once the catalog is laid out, so that a recipe is not called unknown too early.
func (s *Seeder) Await(ctx context.Context) error {
	select {
	case <-s.Done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "catalog", "the recipe catalog is not laid out yet").Wrap(ctx.Err())
	}
}
