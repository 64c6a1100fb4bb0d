// Package llm owns the self-check of the diagnosis agent's language model: whether its address, key, name and
// function calling work, told in the upstream's own words.
//
// It promises: whatever the upstream does, the answer is a result with all its fields; the key is in none of
// them, in no log and in no audit row, also where the upstream sends it back in part or in another spelling;
// of the upstream's words at most MaxText bytes are told, without control characters; nothing that package
// egress refuses is called and no redirect is followed; one test runs at a time in the whole installation;
// and nothing is kept of it.
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
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Settings are how the model is called.
type Settings struct {
	BaseURL string
	Model   string
	Key     secret.String
}

// missing names what is not set.
func (s Settings) missing() []string {
	var out []string
	if s.BaseURL == "" {
		out = append(out, "base URL")
	}
	if s.Key.IsZero() {
		out = append(out, "key")
	}
	if s.Model == "" {
		out = append(out, "model")
	}
	return out
}

// Result is what a test found.
type Result struct {
	Configured bool
	OK         bool
	Model      string
	Endpoint   string
	Error      string
	Sample     string
	ToolsOK    bool
	ToolsError string
}

const (
	notTested = "not tested: the model did not answer"
	otherTest = "another test is running: try again in a minute"
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
