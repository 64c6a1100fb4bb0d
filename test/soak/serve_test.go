package soak_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// source is a run with a model. One version of the model stays registered, so that the artifact is never deleted.
type source struct {
	l        *e2eflow.Loop
	artifact e2eflow.Artifact
	version  e2eflow.ModelVersion
}

// export runs the job of the source.
func (h *harness) export() (out source) {
	h.t.Helper()
	ctx := h.t.Context()
	out.l = h.s.Loop(ctx)
	out.artifact = testenv.ExportModel(ctx, h.s, out.l)
	var err error
	out.version, err = out.l.Register(ctx, out.artifact)
	require.NoError(h.t, err)
	return out
}

// serving returns the settings of a small engine.
func serving() map[string]any {
	return map[string]any{"engine": "command", "command": fixtures.Engine()}
}

// calls is the number of calls of a deployment in a round.
const calls = 20

// server returns a round that registers a model, deploys it, calls it, and deletes the deployment and the model.
func (h *harness) server() func(ctx context.Context, n int) error {
	conn := h.s.Connect(h.t.Context())
	return func(ctx context.Context, n int) error {
		l := *h.source.l
		l.Name += "-" + strconv.Itoa(n)
		version, err := l.Register(ctx, h.source.artifact)
		if err == nil {
			err = l.Deploy(ctx, l.Name, version, serving())
		}
		for _, step := range []func(context.Context) error{
			l.AwaitReady, l.Promote, func(ctx context.Context) error { return l.MakeToken(ctx, "soak") },
		} {
			if err == nil {
				err = step(ctx)
			}
		}
		if err == nil {
			err = call(ctx, &l)
		}
		if err == nil {
			err = moveCalls(ctx, conn, l.Deployment.ID, n)
		}
		if err != nil {
			return err
		}
		path := "/api/model-deployments/" + l.Deployment.ID
		return errors.Join(
			h.expect(ctx, &l, http.StatusOK, http.MethodPost, path+"/suspend", map[string]any{"mode": "cut"}),
			h.expect(ctx, &l, http.StatusNoContent, http.MethodDelete, path, nil),
			h.expect(ctx, &l, http.StatusNoContent, http.MethodDelete, "/api/models/"+version.ModelID, nil),
		)
	}
}

// call calls a deployment and waits until all calls are recorded.
func call(ctx context.Context, l *e2eflow.Loop) error {
	for range calls {
		text, err := l.Chat(ctx, "hello")
		if err != nil {
			return err
		}
		if text != "x" {
			return fmt.Errorf("the engine returned %q, want x", text)
		}
	}
	_, err := l.AwaitTraffic(ctx, calls)
	return err
}

// moveCalls moves the calls of a deployment some days into the past. Calls are deleted by whole days, and the test
// cannot shorten a day. The move makes whole days of calls old enough to be deleted during the test.
func moveCalls(ctx context.Context, conn *pgx.Conn, deployment string, n int) error {
	days := time.Duration(2+n%5) * 24 * time.Hour
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT inference.ensure_call_partitions(((now() - $1::interval) AT TIME ZONE 'UTC')::date - 1, 3)`, days); err != nil {
			return fmt.Errorf("create the partitions of earlier days: %w", err)
		}
		tag, err := tx.Exec(ctx, `UPDATE inference.call SET at = at - $1::interval WHERE deployment_id = $2`, days, deployment)
		if err == nil && tag.RowsAffected() < calls {
			err = fmt.Errorf("found %d calls, want at least %d", tag.RowsAffected(), calls)
		}
		if err != nil {
			return fmt.Errorf("move the calls: %w", err)
		}
		return nil
	})
}
