package report

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestWrite_replacesItemOfSameAttempt(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	put := func(run, stream string, attempt int32, items ...Item) {
		require.NoError(t, pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			r := &groupcommit.Run{ID: run, Attempt: attempt, Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
			if err := WriteRaw(stream, items)(ctx, tx, batch, r); err != nil {
				return err
			}
			return tx.SendBatch(ctx, batch).Close()
		}))
	}
	item := func(key, body string) Item { return Item{Key: key, Body: []byte(body)} }
	put("run_1", "nodes", 1, item("0", `{"host":"a"}`), item("1", `{"host":"b"}`), item("0", `{"host": "c"}`))
	put("run_1", "nodes", 2, item("0", `{"host":"later"}`))
	put("run_1", "environment", 1, item("0", `"other stream"`))
	put("run_2", "nodes", 1, item("0", `"other run"`))
	put("run_1", "nodes", 1)
	rows, err := pool.Query(t.Context(), `SELECT run_id || ' ' || stream || ' ' || attempt || ' ' || item || ' ' || body FROM record ORDER BY 1`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		`run_1 environment 1 0 "other stream"`, `run_1 nodes 1 0 {"host": "c"}`, `run_1 nodes 1 1 {"host":"b"}`,
		`run_1 nodes 2 0 {"host":"later"}`, `run_2 nodes 1 0 "other run"`,
	}, got, "bodies are stored verbatim")
}
