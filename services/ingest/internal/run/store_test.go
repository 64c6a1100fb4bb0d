package run

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database with one run.
type harness struct {
	t    *testing.T
	pool *pgxpool.Pool
	run  groupcommit.Run
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	return &harness{t: t, pool: base.Pool("ingest"), run: groupcommit.Run{ID: "run_1", Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}}
}

// group stores the writes of an attempt in one transaction, as the committer does.
func (b *harness) group(attempt int32, writes ...groupcommit.Write) error {
	b.t.Helper()
	r := b.run
	r.Memo = map[any]any{}
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, write := range writes {
			r.Attempt = max(r.Attempt, attempt)
			if err := write(ctx, tx, batch, &r); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err == nil {
		b.run = r
	}
	return err
}

// params returns the write of hyperparameters. The arguments are the key and the value of each.
func params(pairs ...string) groupcommit.Write {
	var out []report.Param
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, report.Param{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return WriteHParams(out, 0)
}

func (b *harness) get() string {
	b.t.Helper()
	raw, err := (&HParamStore{Pool: b.pool}).Get(b.t.Context(), b.run.ID, nil)
	require.NoError(b.t, err)
	return string(raw)
}

func TestWrite_mergesHyperparametersAndKeepsText(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.Equal(t, `{}`, b.get())
	require.NoError(t, b.group(1, params("lr", "1e-3", "b", `{"x": [1,null]}`)))
	require.NoError(t, b.group(1, params("lr", "0.001", "a", `"\u0000"`), params("c<\"ü\x00", "true")))
	require.NoError(t, b.group(1, params()))
	require.JSONEq(t, `{"a":"\u0000","b":{"x":[1,null]},"c<\"ü\u0000":true,"lr":0.001}`, b.get())
	require.True(t, strings.HasPrefix(b.get(), `{"a":"\u0000","b":{"x": [1,null]},`), "names are sorted, and the text of values is not changed")
}

func TestWrite_keepsReplacedHyperparameters(t *testing.T) {
	t.Parallel()
	b := open(t)
	for attempt, value := range []string{"1", "2", "2", "1"} {
		require.NoError(t, b.group(int32(attempt+1), params("lr", value, "same", "0")))
	}
	rows, err := b.pool.Query(t.Context(), `SELECT convert_from(key, 'UTF8') || '=' || value || '@' || attempt FROM hparam_history ORDER BY n`)
	require.NoError(t, err)
	history, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"lr=1@1", "lr=2@2"}, history, "an equal value adds no history")
}

func TestWrite_boundsHyperparametersOfRun(t *testing.T) {
	t.Parallel()
	b := open(t)
	long := `"` + strings.Repeat("x", maxText/2) + `"`
	require.NoError(t, b.group(1, params("a", long)))
	err := b.group(1, params("b", long))
	require.True(t, fault.HasCode(err, "hparams_limit") && fault.Is(err, fault.Refused), "%v", err)
	require.NotContains(t, b.get(), `"b"`)
	require.NoError(t, b.group(1, params("a", "1")), "a smaller value makes room")
	require.NoError(t, b.group(1, params("b", long)))
	many := make([]string, 0, 2*maxTotal)
	for i := range maxTotal - 2 {
		many = append(many, fmt.Sprintf("k%d", i), "1")
	}
	require.NoError(t, b.group(1, params(many...)))
	require.True(t, fault.HasCode(b.group(1, params("one more", "1")), "hparams_limit"))
}

// What readers see of all ranks is bounded too, whichever rank reports last, and also if the values of rank 0 are older
// than ranks, so that those of other ranks replace them.
func TestWrite_boundsHyperparametersOfAllRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	put := func(rank int32, pairs ...string) error {
		var out []report.Param
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, report.Param{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return b.group(1, WriteHParams(out, rank))
	}
	refused := func(err error) {
		t.Helper()
		require.True(t, fault.HasCode(err, "hparams_limit"), "%v", err)
		require.LessOrEqual(t, len(b.get()), maxText)
	}
	require.NoError(t, put(0, "a", text(maxText/2), "b", "1"))
	refused(put(1, "a", "1", "c", text(maxText/2)))
	require.NoError(t, put(1, "a", text(maxText*3/4)), "readers see the value of rank 0")
	require.NoError(t, put(1, "c", text(maxText/8)))
	require.NoError(t, put(2, "c", text(maxText*3/4)), "readers see the value of rank 1")
	refused(put(0, "d", text(maxText*3/8)))
	refused(put(0, "c", text(maxText*3/8), "d", text(maxText*3/8)))
	require.NoError(t, put(0, "c", text(maxText*3/8)))

	b.run.ID = "run_2"
	require.NoError(t, put(0, "a", "1", "b", text(maxText/2)))
	_, err := b.pool.Exec(t.Context(), `UPDATE hparam SET ranked = DEFAULT WHERE run_id = 'run_2'`)
	require.NoError(t, err)
	refused(put(1, "a", text(maxText*3/4)))
	require.NoError(t, put(1, "b", text(maxText*3/4)))
	refused(put(1, "a", text(maxText/2)))
}

// Parameters that are older than ranks do not hide those that another rank than 0 reports after the upgrade.
func TestHParamStore_Get_knownRanksBeforeUnknown(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, params("lr", "1", "same", "5")))
	_, err := b.pool.Exec(t.Context(), `UPDATE hparam SET ranked = DEFAULT`)
	require.NoError(t, err)
	require.JSONEq(t, `{"lr":1,"same":5}`, b.get())
	require.NoError(t, b.group(2, WriteHParams([]report.Param{{Key: "lr", Value: []byte("2")}}, 7)))
	require.JSONEq(t, `{"lr":2,"same":5}`, b.get())
	require.NoError(t, b.group(2, params("lr", "1")))
	require.JSONEq(t, `{"lr":1,"same":5}`, b.get())
	var attempt int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT attempt FROM hparam WHERE key = 'lr'`).Scan(&attempt))
	require.Equal(t, 1, attempt, "an equal value is not a change")
}
