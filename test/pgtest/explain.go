package pgtest

import (
	"context"
	"encoding/json"
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

// Reads is how much the statements of a read have read.
type Reads struct {
	// Rows is the number of rows and index entries that the scans of tables have read, including those that did not
	// match a condition.
	Rows int
	// Whole are the tables that a sequential scan has read.
	Whole []string
	// Plan is the text of the plans, for the message of a failed test.
	Plan string
}

// Measure calls the function `read` with a Querier that runs the statements of Query and QueryRow. It returns how much
// these statements read. They run twice, so they must not change anything. Unlike the name of an index in a plan, these
// numbers do not depend on which of several suitable indexes Postgres chooses.
func Measure(tb testing.TB, q pg.Querier, read func(q pg.Querier) error) Reads {
	tb.Helper()
	e := &explainer{Querier: q, options: `(ANALYZE, TIMING OFF, FORMAT JSON) `}
	require.NoError(tb, read(e))
	reads := Reads{Plan: strings.Join(e.plans, "\n")}
	for _, text := range e.plans {
		var plans []struct{ Plan node }
		require.NoError(tb, json.Unmarshal([]byte(text), &plans))
		for _, p := range plans {
			reads.add(p.Plan)
		}
	}
	return reads
}

// node is a node of a plan. The numbers of rows are averages of its loops.
type node struct {
	Type     string  `json:"Node Type"`
	Table    string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Loops    float64 `json:"Actual Loops"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Recheck  float64 `json:"Rows Removed by Index Recheck"`
	Plans    []node
}

func (r *Reads) add(n node) {
	if n.Table != "" || n.Index != "" {
		r.Rows += int(n.Loops * (n.Rows + n.Filtered + n.Recheck))
	}
	if n.Type == "Seq Scan" {
		r.Whole = append(r.Whole, n.Table)
	}
	for _, below := range n.Plans {
		r.add(below)
	}
}

type explainer struct {
	pg.Querier

	options string
	plans   []string
}

func (e *explainer) explain(ctx context.Context, sql string, args []any) error {
	rows, err := e.Querier.Query(ctx, `EXPLAIN `+e.options+sql, args...)
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
