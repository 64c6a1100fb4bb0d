package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// fresh returns a schema for which no template exists yet.
func fresh(t *testing.T) Schema {
	t.Helper()
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	return Schema{Name: "one", Migrations: fstest.MapFS{
		"00001_first.sql": &fstest.MapFile{Data: fmt.Appendf(nil, "-- +goose Up\nCREATE TABLE t_%s (n int);\n", hex.EncodeToString(raw[:]))},
	}}
}

// withServer runs fn as the superuser of the test server.
func withServer(t *testing.T, fn func(ctx context.Context, conn *pgx.Conn) error) {
	t.Helper()
	require.NoError(t, fn(t.Context(), open(t.Context(), t)))
}

// TestClone_concurrentCallsShareTemplate checks that concurrent calls, as from packages that are tested in
// parallel, wait for one template.
func TestClone_concurrentCallsShareTemplate(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	admin := open(t.Context(), t)
	dbs := make([]*DB, 4)
	var group errgroup.Group
	for i := range dbs {
		conn := open(t.Context(), t)
		group.Go(func() (err error) {
			dbs[i], err = clone(t.Context(), conn, []Schema{s})
			return err
		})
	}
	require.NoError(t, group.Wait())
	names := map[string]bool{}
	for _, db := range dbs {
		names[db.Name] = true
		require.NoError(t, drop(t.Context(), admin, db.Name))
	}
	require.Len(t, names, len(dbs))
	key, err := fingerprint([]Schema{s})
	require.NoError(t, err)
	withServer(t, func(ctx context.Context, conn *pgx.Conn) error {
		made, err := exists(ctx, conn, "sbtpl_"+key)
		require.True(t, made)
		half, herr := exists(ctx, conn, "sbbld_"+key)
		require.False(t, half, "the database under construction must be renamed")
		require.NoError(t, herr)
		return err
	})
	require.NoError(t, drop(t.Context(), admin, "sbtpl_"+key))
}

func TestTemplate_rebuiltAfterKilledBuild(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	admin := open(t.Context(), t)
	key, err := fingerprint([]Schema{s})
	require.NoError(t, err)
	withServer(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE DATABASE sbbld_`+key)
		return err
	})
	require.NoError(t, New(t, s).Pool("one").Ping(t.Context()))
	require.NoError(t, drop(t.Context(), admin, "sbtpl_"+key))
}

func TestTemplate_brokenMigrationNotKept(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.Migrations = fstest.MapFS{"00001_a.sql": &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE NONSENSE " + rand.Text() + ";\n")}}
	key, err := fingerprint([]Schema{s})
	require.NoError(t, err)
	admin := open(t.Context(), t)
	for range 2 {
		_, err = clone(t.Context(), admin, []Schema{s})
		require.ErrorContains(t, err, "create the template")
	}
	withServer(t, func(ctx context.Context, conn *pgx.Conn) error {
		made, err := exists(ctx, conn, "sbtpl_"+key)
		require.False(t, made)
		return err
	})
	require.NoError(t, drop(t.Context(), admin, "sbbld_"+key))
}

// TestSweep_dropsOnlyOldTestDatabases checks that sweep drops the databases of killed tests but no database
// that may be in use.
func TestSweep_dropsOnlyOldTestDatabases(t *testing.T) {
	t.Parallel()
	var raw [4]byte
	_, _ = rand.Read(raw[:])
	suffix := hex.EncodeToString(raw[:])
	old, young := time.Now().Add(-2*time.Hour).Unix(), time.Now().Add(-30*time.Minute).Unix()
	busy := fmt.Sprintf("sbt_%d_%sb", old, suffix)
	left := map[string]bool{
		fmt.Sprintf("sbt_%d_%s", old, suffix):   false,
		busy:                                    true, // a client is connected to this database
		fmt.Sprintf("sbt_%d_%s", young, suffix): true,
		fmt.Sprintf("sbtx_%d_%s", old, suffix):  true,
		fmt.Sprintf("sbt_%d_%s_x", old, suffix): true,
		"signalbox_" + suffix:                   true,
	}
	admin := open(t.Context(), t)
	withServer(t, func(ctx context.Context, conn *pgx.Conn) error {
		for name := range left {
			if name != busy {
				_, err := conn.Exec(ctx, `CREATE DATABASE `+name+` STRATEGY file_copy`)
				require.NoError(t, err)
			}
		}
		held := occupy(ctx, t, conn, adminURL(conn), busy)
		require.NoError(t, sweep(ctx, conn))
		require.NoError(t, held.Close(ctx))
		for name, stays := range left {
			there, err := exists(ctx, conn, name)
			require.NoError(t, err)
			require.Equal(t, stays, there, name)
		}
		return nil
	})
	for name := range left {
		require.NoError(t, drop(t.Context(), admin, name))
	}
}

// occupy creates a database and connects to it. It retries if the sweep of another package drops the database before
// the connection is made.
func occupy(ctx context.Context, t *testing.T, conn *pgx.Conn, admin secret.String, name string) *pgx.Conn {
	t.Helper()
	url, err := on(admin, name)
	require.NoError(t, err)
	for {
		_, err := conn.Exec(ctx, `CREATE DATABASE `+name+` STRATEGY file_copy`)
		require.NoError(t, err)
		held, err := pgx.Connect(ctx, url.Reveal())
		if err == nil {
			return held
		}
		require.ErrorContains(t, err, "does not exist")
	}
}

func TestFingerprint_coversNamesAndMigrations(t *testing.T) {
	t.Parallel()
	one, two := fresh(t), fresh(t)
	two.Name = "two"
	renamed := one
	renamed.Name = "other"
	seen := map[string]string{}
	for name, schemas := range map[string][]Schema{
		"one": {one}, "two": {two}, "both": {one, two}, "none": nil, "another name": {renamed}, "no migrations": {{Name: "one"}},
	} {
		key, err := fingerprint(schemas)
		require.NoError(t, err)
		require.NotContains(t, seen, key, name)
		seen[key] = name
		again, err := fingerprint(schemas)
		require.NoError(t, err)
		require.Equal(t, key, again)
	}
}

func TestOn_errorHidesPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"postgres://u:hunter2-planted@h:bad/x", "postgres://u:hunter2-planted%zz@h/x"} {
		_, err := on(secret.New(text), "x")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2-planted")
	}
	moved, err := on(secret.New("postgres://u:p@h:5/old?sslmode=disable"), "new")
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@h:5/new?sslmode=disable", moved.Reveal())
}

func TestFolder_rejectsLinksAndFiles(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	path := filepath.Join(tmp, "signalbox-pgserver-"+strconv.Itoa(os.Geteuid()))
	elsewhere := filepath.Join(tmp, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.Symlink(elsewhere, path))
	_, err := folder()
	require.ErrorContains(t, err, "not a private folder", "a symbolic link must be rejected")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, nil, 0o700))
	_, err = folder()
	require.ErrorContains(t, err, "not a private folder")
	require.NoError(t, os.Remove(path))
	for range 2 {
		got, err := folder()
		require.NoError(t, err)
		require.Equal(t, path, got)
	}
}
