package access_test

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

//go:embed testdata/*.sql
var testdata embed.FS

// harness is a schema with two tables that have copies of the visibility of projects.
type harness struct {
	*access.VisibilityRows

	t     *testing.T
	pool  *pgxpool.Pool
	calls int // number of calls of Changed
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := fs.Sub(testdata, "testdata")
	require.NoError(t, err)
	b := &harness{t: t, pool: pgtest.New(t, pgtest.Schema{Name: "things", Migrations: files}).Pool("things")}
	b.VisibilityRows = &access.VisibilityRows{Pool: b.pool, Tables: []string{"job", "run"}, Changed: func(context.Context, pgx.Tx, map[string][]string) error {
		b.calls++
		return nil
	}}
	return b
}

// exec runs a statement in tx, or outside of a transaction if tx is nil.
func (b *harness) exec(tx pgx.Tx, sql string, args ...any) {
	b.t.Helper()
	var err error
	if tx == nil {
		_, err = b.pool.Exec(b.t.Context(), sql, args...)
	} else {
		_, err = tx.Exec(b.t.Context(), sql, args...)
	}
	require.NoError(b.t, err)
}

// store inserts a job and its run with the given visibility and version.
func (b *harness) store(tx pgx.Tx, id, project, visibility string, version int64) {
	b.t.Helper()
	for _, table := range []string{"job", "run"} {
		b.exec(tx, `INSERT INTO `+table+` (id, project_id, visibility, visibility_version) VALUES ($1, $2, $3, $4)`, id, project, visibility, version)
	}
}

// have returns the number of rows in both tables with the given visibility and version.
func (b *harness) have(project, visibility string, version int64) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM (SELECT * FROM job UNION ALL SELECT * FROM run) r
		WHERE project_id = $1 AND visibility = $2 AND visibility_version = $3`, project, visibility, version).Scan(&n))
	return n
}

func (b *harness) set(project, to string, version int64) int64 {
	b.t.Helper()
	got, err := b.Set(b.t.Context(), access.VisibilityChange{ProjectID: project, Visibility: to, Version: version})
	require.NoError(b.t, err)
	return got
}

func TestVisibilityRows_Set_updatesAllRowsOfProjectOnly(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 1, 2, 5, 6} {
		b := open(t)
		b.Batch = batch
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			b.store(nil, id, "prj_1", "all", 0)
			b.store(nil, id+"2", "prj_2", "all", 0)
		}
		require.EqualValues(t, 1, b.set("prj_1", "team", 1))
		require.Equal(t, []int{10, 10}, []int{b.have("prj_1", "team", 1), b.have("prj_2", "all", 0)}, batch)
		require.Positive(t, b.calls)
		if batch == 0 || batch > 4 {
			require.Equal(t, 1, b.calls, "a single batch needs one transaction")
		}
		calls := b.calls
		require.EqualValues(t, 1, b.set("prj_1", "team", 1))
		require.Equal(t, calls, b.calls, "a repeated Set changes nothing")
		require.EqualValues(t, 2, b.set("prj_1", "all", 2))
		require.Equal(t, 10, b.have("prj_1", "all", 2))
	}
}

func TestVisibilityRows_Set_olderChangeIsIgnored(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.store(nil, "a", "prj_1", "all", 0)
	require.EqualValues(t, 2, b.set("prj_1", "team", 2))
	require.EqualValues(t, 2, b.set("prj_1", "all", 1), "Set returns the current version")
	require.Equal(t, 2, b.have("prj_1", "team", 2))
}

func TestVisibilityRows_Set_newRowsGetNewestVersion(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.set("prj_1", "team", 2)
	b.store(nil, "stale", "prj_1", "all", 1)
	b.store(nil, "never", "prj_1", "all", 0)
	require.Equal(t, 4, b.have("prj_1", "team", 2), "rows inserted with an older version get the newest one")
	b.store(nil, "ahead", "prj_1", "all", 3)
	b.store(nil, "other", "prj_2", "all", 1)
	require.Equal(t, []int{2, 2}, []int{b.have("prj_1", "all", 3), b.have("prj_2", "all", 1)}, "rows inserted with a newer version keep it")
	require.EqualValues(t, 2, b.set("prj_1", "team", 2))
	require.Equal(t, 2, b.have("prj_1", "all", 3), "the newer version stays")
	b.set("prj_1", "all", 3)
	require.Equal(t, 6, b.have("prj_1", "all", 3))
}

func TestVisibilityRows_Set_isAtomic(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.store(nil, "a", "prj_1", "all", 0)
	refused := errors.New("refused")
	b.Changed = func(context.Context, pgx.Tx, map[string][]string) error { return refused }
	_, err := b.Set(t.Context(), access.VisibilityChange{ProjectID: "prj_1", Visibility: "team", Version: 1})
	require.ErrorIs(t, err, refused)
	b.store(nil, "b", "prj_1", "all", 0)
	require.Equal(t, 4, b.have("prj_1", "all", 0))
}

func TestVisibilityRows_Set_repeatCompletesInterruptedSet(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.Batch = 1
	for _, id := range []string{"a", "b", "c"} {
		b.store(nil, id, "prj_1", "all", 0)
	}
	rounds := 0
	b.Changed = func(context.Context, pgx.Tx, map[string][]string) error {
		if rounds++; rounds == 3 {
			return errors.New("interrupted")
		}
		return nil
	}
	_, err := b.Set(t.Context(), access.VisibilityChange{ProjectID: "prj_1", Visibility: "team", Version: 1})
	require.Error(t, err)
	require.Equal(t, 4, b.have("prj_1", "team", 1))
	b.set("prj_1", "team", 1)
	require.Equal(t, 6, b.have("prj_1", "team", 1))
}
