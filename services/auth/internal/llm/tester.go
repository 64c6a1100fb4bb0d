package llm

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Tester runs the tests that admins request.
type Tester struct {
	// Settings returns the current settings.
	Settings func(ctx context.Context) (Settings, error)
	Call     Caller
	Turn     Turn
	Pool     *pgxpool.Pool
	Audit    *audit.Log
	IDs      *id.Source
}

// Test runs one test. While another test is running, it waits, but at most for the time patience. After that it returns
// a result with the error otherTest.
func (d *Tester) Test(ctx context.Context) (Result, error) {
	s, err := d.Settings(ctx)
	if err != nil {
		return Result{}, err
	}
	r := Result{Configured: true, Model: s.Model, ToolsError: notTested}
	if missing := s.missing(); len(missing) > 0 {
		r.Configured, r.Error = false, "not configured: "+strings.Join(missing, ", ")
		return r, d.record(ctx, r)
	}
	give, err := d.Turn.Take(ctx, d.IDs.New(id.Request))
	if errors.Is(err, ErrBusy) {
		r.Error = otherTest
		return r, nil
	}
	if err != nil {
		return Result{}, err
	}
	defer give()
	r = d.Call.Test(ctx, s)
	return r, d.record(ctx, r)
}

// record writes an audit row for the use of the key, with the result. The row contains no text of the upstream.
func (d *Tester) record(ctx context.Context, r Result) error {
	return pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return d.Audit.Record(ctx, tx, audit.Entry{
			Action: "agent.llm_test", TargetKind: "setting", TargetID: "agent",
			After: map[string]any{"configured": r.Configured, "ok": r.OK, "tools_ok": r.ToolsOK, "endpoint": r.Endpoint},
		})
	})
}
