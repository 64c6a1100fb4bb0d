package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// lockTimeout limits each wait of a migration for a lock. Postgres queues every later statement on the table
	// behind such a wait.
	lockTimeout = 2 * time.Second
	// lockTries limits how often a migration that could not get a lock is tried again. lockPause is the minimum time
	// between two tries. The queued statements of other clients run during this pause.
	lockTries = 60
	lockPause = time.Second
	// lockUnavailable is the SQLSTATE of a statement that waited longer than lock_timeout.
	lockUnavailable = "55P03"
)

// apply applies the pending files of a set in their order. It reports whether there were any.
func apply(ctx context.Context, cfg *pgx.ConnConfig, s set) (applied bool, err error) {
	cfg = withoutFlush(cfg)
	limited := cfg.Copy()
	limited.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	brief, closeBrief, err := provider(limited, s)
	if err != nil || brief == nil {
		return false, err
	}
	defer closeBrief()
	// A file without a transaction builds an index concurrently. Such a build waits for other transactions, but they do
	// not wait for it, so it needs no lock timeout.
	patient, closePatient, err := provider(cfg, s)
	if err != nil {
		return false, err
	}
	defer closePatient()
	files, err := pending(ctx, brief)
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(s.files, file.Path)
		if err != nil {
			return false, fmt.Errorf("read the migration %s: %w", file.Path, err)
		}
		up := func() error { _, err := brief.UpByOne(ctx); return err }
		if bytes.Contains(text, []byte("+goose NO TRANSACTION")) {
			up = func() error { _, err := patient.UpByOne(ctx); return err }
		}
		if err := whileLocked(ctx, up); err != nil {
			return false, err
		}
	}
	return len(files) > 0, nil
}

// withoutFlush returns a configuration whose commits do not wait for the disk. After a crash, Postgres has the commits up to
// some point, and the next Up continues from there, see flush.
func withoutFlush(cfg *pgx.ConnConfig) *pgx.ConnConfig {
	cfg = cfg.Copy()
	cfg.RuntimeParams["synchronous_commit"] = "off"
	return cfg
}

// flush waits until all commits up to now are on disk. To do so, it commits a message in the write-ahead log.
func flush(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SET synchronous_commit = on`); err != nil {
		return fmt.Errorf("turn on commits that wait for the disk: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(true, 'signalbox', 'migrated')`); err != nil {
		return fmt.Errorf("wait until the migrations are on disk: %w", err)
	}
	return nil
}

// provider returns a goose provider for a set, or nil if the set has no files.
func provider(cfg *pgx.ConnConfig, s set) (*goose.Provider, func(), error) {
	db := stdlib.OpenDB(*cfg)
	p, err := goose.NewProvider(goose.DialectPostgres, db, s.files,
		goose.WithTableName(s.table), goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		_ = db.Close()
		if errors.Is(err, goose.ErrNoMigrations) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, func() { _ = db.Close() }, nil
}

// pending returns the files that are not applied, in their order. It reads the state of each file with a statement of
// its own, so apply calls it only once.
func pending(ctx context.Context, p *goose.Provider) ([]*goose.Source, error) {
	all, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the applied migrations: %w", err)
	}
	var files []*goose.Source
	for _, m := range all {
		if m.State == goose.StatePending {
			files = append(files, m.Source)
		}
	}
	return files, nil
}

// whileLocked calls fn until fn gets its locks, at most lockTries times.
func whileLocked(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != lockUnavailable {
			return err
		}
		if try == lockTries {
			return fmt.Errorf("%w; end the transactions that hold the table (pg_stat_activity shows them) and start again", err)
		}
		if err := clock.Sleep(ctx, clock.Real(), lockPause+rand.N(lockPause)); err != nil {
			return fmt.Errorf("wait for a lock: %w", err)
		}
	}
}
