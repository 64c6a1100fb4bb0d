package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Explain calls the function `read` with a Querier that runs the statements of Query and QueryRow. It returns the
// plans of these statements.
func Explain(tb testing.TB, q pg.Querier, read func(q pg.Querier) error) string {
	tb.Helper()
	e := &explainer{Querier: q}
	require.NoError(tb, read(e))
	return strings.Join(e.plans, "\n")
}

type explainer struct {
	pg.Querier

	plans []string
}

func (e *explainer) explain(ctx context.Context, sql string, args []any) error {
	rows, err := e.Querier.Query(ctx, `EXPLAIN `+sql, args...)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	e.plans = append(e.plans, lines...)
	return err
}

func (e *explainer) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := e.explain(ctx, sql, args); err != nil {
		return nil, err
	}
	return e.Querier.Query(ctx, sql, args...)
}

func (e *explainer) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := e.explain(ctx, sql, args); err != nil {
		return failedRow{err}
	}
	return e.Querier.QueryRow(ctx, sql, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
