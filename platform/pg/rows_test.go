package pg_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// owner is embedded in thing. Its fields are columns too.
type owner struct {
	OwnerID string
}

type thing struct {
	owner

	ID   string
	Size int64    `db:"size_bytes"`
	Tags []string `db:"-"`
}

func TestOneAndAll_readRowsByColumnName(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	const rows = `SELECT n AS size_bytes, 'usr_1' AS owner_id, 'id_' || n AS id FROM generate_series(1, $1) n ORDER BY n`

	one, err := pg.One[thing](pool.Query(t.Context(), rows, 1))
	require.NoError(t, err)
	require.Equal(t, &thing{owner: owner{OwnerID: "usr_1"}, ID: "id_1", Size: 1}, one)
	_, err = pg.One[thing](pool.Query(t.Context(), rows, 0))
	require.ErrorIs(t, err, pgx.ErrNoRows)
	_, err = pg.One[thing](pool.Query(t.Context(), rows, 2))
	require.ErrorIs(t, err, pgx.ErrTooManyRows)

	all, err := pg.All[thing](pool.Query(t.Context(), rows, 3))
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "id_3", all[2].ID)
}

func TestOneAndAll_fieldsAndColumnsMustMatch(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	for _, sql := range []string{`SELECT 'x' AS id, 1 AS size_bytes`, `SELECT 'x' AS id, 1 AS size_bytes, '' AS owner_id, 1 AS more`, `SELECT nonsense`} {
		_, err := pg.One[thing](pool.Query(t.Context(), sql))
		require.Error(t, err, sql)
		_, err = pg.All[thing](pool.Query(t.Context(), sql))
		require.Error(t, err, sql)
	}
}
