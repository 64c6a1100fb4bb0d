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

// Desk runs tests.
type Desk struct {
	// Settings reads the settings in force.
	Settings func(ctx context.Context) (Settings, error)
	Call     Caller
	Turn     Turn
	Pool     *pgxpool.Pool
	Audit    *audit.Log
	IDs      *id.Source
}

// Test runs one test, when its turn comes.
func (d *Desk) Test(ctx context.Context) (Result, error) {
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

// record tells the audit that the key was used, by whom and to which end; nothing of the upstream's words.
func (d *Desk) record(ctx context.Context, r Result) error {
	return pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return d.Audit.Record(ctx, tx, audit.Entry{
			Action: "agent.llm_test", TargetKind: "setting", TargetID: "agent",
			After: map[string]any{"configured": r.Configured, "ok": r.OK, "tools_ok": r.ToolsOK, "endpoint": r.Endpoint},
		})
	})
}
