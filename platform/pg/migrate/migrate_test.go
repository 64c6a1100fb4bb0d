package migrate_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func files(pairs ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return out
}

const (
	first  = "-- +goose Up\nCREATE TABLE thing (n int PRIMARY KEY);\n"
	second = "-- +goose Up\nALTER TABLE thing ADD COLUMN m int;\n"
)

func number(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestUp_emptySchemaAndRepeated(t *testing.T) {
	t.Parallel()
	creds := bare(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: creds["jobs"].URL, AllowUnsafe: true}, "jobs", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	one, two := files("00001_a.sql", first), files("00001_a.sql", first, "00002_b.sql", second)
	check := func(f fstest.MapFS) error { return migrate.Check(t.Context(), pool, "jobs", f) }
	up := func(f fstest.MapFS) {
		require.NoError(t, migrate.Up(pgtest.Context(t), creds["jobs"].OwnerURL, "jobs", f))
	}

	require.ErrorIs(t, check(one), migrate.ErrBehind, "an empty schema is behind")
	up(nil)
	require.NoError(t, check(nil))
	require.ErrorIs(t, check(one), migrate.ErrBehind, "a schema with only the common tables is behind")
	up(one)
	require.NoError(t, check(one))
	require.ErrorIs(t, check(two), migrate.ErrBehind)
	up(two)
	up(two)
	require.NoError(t, check(two))
	require.NoError(t, check(one), "old code runs on a newer schema")
	require.Equal(t, 3, number(t, pool, `SELECT count(*) FROM goose_db_version`), "version 0 and two files")
	for _, table := range []string{"event", "audit", "audit_seal", "audit_checkpoint", "idempotency", "river_job", "river_leader", "thing"} {
		require.Equal(t, 1, number(t, pool, `SELECT count(*) FROM pg_tables WHERE schemaname = 'jobs' AND tablename = '`+table+`'`), table)
	}
	require.NoError(t, migrate.Reindex(pgtest.Context(t), creds["jobs"].OwnerURL, "jobs"))
}

func TestUp_concurrentRuns(t *testing.T) {
	t.Parallel()
	creds := bare(t)
	set := files("00001_a.sql", first, "00002_b.sql", second,
		"00003_c.sql", "-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY thing_m ON thing (m);\n")
	group, ctx := errgroup.WithContext(t.Context())
	for range 5 {
		group.Go(func() error { return migrate.Up(ctx, creds["jobs"].OwnerURL, "jobs", set) })
	}
	require.NoError(t, group.Wait())
}

func TestUp_waitingForLockLetsReadersPass(t *testing.T) {
	t.Parallel()
	creds := bare(t)
	require.NoError(t, migrate.Up(t.Context(), creds["jobs"].OwnerURL, "jobs", files("00001_a.sql", first)))
	holder, err := pg.Connect(t.Context(), creds["jobs"].OwnerURL.Reveal(), map[string]string{"search_path": "jobs"})
	require.NoError(t, err)
	t.Cleanup(func() { pg.CloseConn(pgtest.Context(t), holder) })
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE thing IN ACCESS SHARE MODE`)
	require.NoError(t, err)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		return migrate.Up(ctx, creds["jobs"].OwnerURL, "jobs", files("00001_a.sql", first, "00002_b.sql", second))
	})
	reader, err := pg.Connect(t.Context(), creds["jobs"].OwnerURL.Reveal(), map[string]string{"search_path": "jobs"})
	require.NoError(t, err)
	t.Cleanup(func() { pg.CloseConn(pgtest.Context(t), reader) })
	waits := `SELECT count(*) > 0 FROM pg_locks WHERE relation = 'thing'::regclass AND NOT granted`
	require.Eventually(t, func() bool {
		var waiting bool
		return reader.QueryRow(t.Context(), waits).Scan(&waiting) == nil && waiting
	}, time.Minute, 5*time.Millisecond, "the migration waits for the table")
	_, err = reader.Exec(t.Context(), `SET statement_timeout = '30s'`)
	require.NoError(t, err)
	var n int
	require.NoError(t, reader.QueryRow(t.Context(), `SELECT count(*) FROM thing`).Scan(&n), "readers pass while the migration waits")
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, group.Wait(), "the migration continues once the table is free")
	require.NoError(t, reader.QueryRow(t.Context(), `SELECT count(m) FROM thing`).Scan(&n))
}

func TestUp_failedFileIsNotApplied(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	bad := files("00001_a.sql", first, "00002_b.sql", "-- +goose Up\nCREATE TABLE half (n int);\nSELECT 1/0;\n")
	err := migrate.Up(pgtest.Context(t), db.OwnerURL("jobs"), "jobs", bad)
	require.ErrorContains(t, err, "version:2")
	pool := db.Pool("jobs")
	require.ErrorIs(t, migrate.Check(t.Context(), pool, "jobs", bad), migrate.ErrBehind)
	require.Equal(t, 0, number(t, pool, `SELECT count(*) FROM pg_tables WHERE tablename = 'half'`))
	good := files("00001_a.sql", first, "00002_b.sql", second)
	require.NoError(t, migrate.Up(pgtest.Context(t), db.OwnerURL("jobs"), "jobs", good))
}

// killable returns migrations with and without a transaction. One of them sleeps for the given time.
func killable(seconds string) fstest.MapFS {
	return files("00001_a.sql", first,
		"00002_b.sql", "-- +goose Up\nCREATE TABLE more (n int);\nSELECT pg_sleep("+seconds+");\n",
		"00003_c.sql", "-- +goose NO TRANSACTION\n-- +goose Up\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS thing_unique ON thing (m);\n")
}

// A process is killed with SIGKILL during a migration, and the next Up continues. The process is this test binary.
func TestUp_afterKill(t *testing.T) {
	if url := os.Getenv("PG_TEST_CHILD_URL"); url != "" {
		_ = migrate.Up(t.Context(), secret.New(url), "jobs", killable("60"))
		return
	}
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	cmd := exec.Command(os.Args[0], "-test.run=^TestUp_afterKill$")
	cmd.Env = append(os.Environ(), "PG_TEST_CHILD_URL="+db.OwnerURL("jobs").Reveal())
	require.NoError(t, cmd.Start())
	admin, err := pg.Open(t.Context(), pg.Config{URL: db.AdminURL(), AllowUnsafe: true}, "jobs", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	const sleeping = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
	require.Eventually(t, func() bool { return number(t, admin, sleeping) == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	// The server detects a lost client only between statements, so end the sleep.
	require.Eventually(t, func() bool {
		return number(t, admin, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) >= 0 &&
			number(t, admin, sleeping) == 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, migrate.Up(pgtest.Context(t), db.OwnerURL("jobs"), "jobs", files(
		"00001_a.sql", first, "00002_b.sql", "-- +goose Up\nCREATE TABLE more (n int);\n")))
}

func TestUp_invalidIndexIsRebuilt(t *testing.T) {
	t.Parallel()
	set := files("00001_a.sql", first, "00002_b.sql", second,
		"00003_c.sql", "-- +goose NO TRANSACTION\n-- +goose Up\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS thing_unique ON thing (m);\n")
	db := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: files("00001_a.sql", first, "00002_b.sql", second)})
	pool := db.Pool("jobs")
	_, err := pool.Exec(t.Context(), `INSERT INTO thing VALUES (1, 7), (2, 7)`)
	require.NoError(t, err)
	require.Error(t, migrate.Up(pgtest.Context(t), db.OwnerURL("jobs"), "jobs", set), "the values of a unique index must differ")
	const valid = `SELECT count(*) FROM pg_index WHERE indexrelid = 'thing_unique'::regclass AND indisvalid`
	require.Equal(t, 0, number(t, pool, valid), "the index is invalid")
	_, err = pool.Exec(t.Context(), `DELETE FROM thing WHERE n = 2`)
	require.NoError(t, err)
	require.NoError(t, migrate.Up(pgtest.Context(t), db.OwnerURL("jobs"), "jobs", set))
	require.Equal(t, 1, number(t, pool, valid))
}

func TestUp_waitEndsWithContext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	holder := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { holder <- migrate.Up(ctx, db.OwnerURL("jobs"), "jobs", killable("60")) }()
	pool := db.OwnerPool("jobs")
	require.Eventually(t, func() bool {
		return number(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 1
	}, time.Minute, 10*time.Millisecond)
	short, stop := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	go func() { waiter <- migrate.Up(short, db.OwnerURL("jobs"), "jobs", nil) }()
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_try_advisory_lock%' AND pid <> pg_backend_pid()`
	require.Eventually(t, func() bool { return number(t, pool, waiting) == 1 }, time.Minute, 10*time.Millisecond, "the second Up waits for the lock")
	stop()
	require.ErrorIs(t, <-waiter, context.Canceled)
	cancel()
	require.Error(t, <-holder)
}

func TestCheckAndFingerprint_rootAndMigrationsFolder(t *testing.T) {
	t.Parallel()
	flat, nested := files("00001_a.sql", first), files("migrations/00001_a.sql", first)
	for _, set := range []fstest.MapFS{flat, nested} {
		db := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: set})
		require.NoError(t, migrate.Check(t.Context(), db.Pool("jobs"), "jobs", set))
		require.Equal(t, 0, number(t, db.Pool("jobs"), `SELECT count(*) FROM thing`))
	}
	one, err := migrate.Fingerprint("jobs", flat)
	require.NoError(t, err)
	for name, set := range map[string]fstest.MapFS{
		"other text": files("00001_a.sql", first+" "), "other name": files("00001_b.sql", first), "additional file": files("00001_a.sql", first, "00002_b.sql", second), "none": nil,
	} {
		other, err := migrate.Fingerprint("jobs", set)
		require.NoError(t, err)
		require.NotEqual(t, one, other, name)
	}
	same, err := migrate.Fingerprint("jobs", nested)
	require.NoError(t, err)
	require.Equal(t, one, same)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	require.ErrorContains(t, migrate.Check(t.Context(), pool, "jobs", files("nonumber.sql", first)), "nonumber.sql")
}
