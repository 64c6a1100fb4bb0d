package reporting_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// outsideHarness has the servers for runs without a job.
type outsideHarness struct {
	*testing.T

	pool    *pgxpool.Pool
	server  *reporting.Server
	outside *reporting.Outside
	peer    *reporting.PeerServer
	closed  closed
}

func newOutsideHarness(t *testing.T) *outsideHarness {
	t.Helper()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	events, tokens := event.NewLog(clk, ids, "jobs"), &reporting.Store{Rand: rand.Reader}
	h := &outsideHarness{T: t, pool: pool}
	h.server = &reporting.Server{
		Tokens: tokens, Projects: reporting.Projects{Client: projects{}}, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, IDs: ids, Events: events,
		Trail: &db.AuditTrail{Log: audit.NewLog(clk, ids, "jobs")}, Endpoint: func() string { return "http://host/api/ingest" },
	}
	h.outside = &reporting.Outside{Pool: pool, Events: events, Closer: &h.closed}
	h.peer = &reporting.PeerServer{Pool: pool, Tokens: tokens, Reporter: noJobs{}, Outside: h.outside, Clock: clk}
	return h
}

// create creates a run as alice, who is an editor of the project search.
func (h *outsideHarness) create(req *jobsv1.CreateRunRequest) *jobsv1.CreatedRun {
	h.Helper()
	made, err := h.server.CreateRun(h.as("alice", authn.ProjectEditor), req)
	require.NoError(h, err)
	return made
}

func (h *outsideHarness) as(name, role string) context.Context {
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_" + name, Username: name, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_search", Role: role}}
	}
	return authn.NewContext(authn.WithNeed(h.Context(), authn.NeedEdit), c)
}

func (h *outsideHarness) resolve(ctx context.Context, made *jobsv1.CreatedRun) (*jobspeerv1.IngestGrant, error) {
	return h.peer.ResolveIngestToken(ctx, &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(made.GetToken())})
}

// finish ends the runs whose closing was queued, as if ingest had closed them.
func (h *outsideHarness) finish() {
	h.Helper()
	for _, runID := range h.closed {
		require.NoError(h, h.outside.Commit(h.Context(), runID, true))
	}
}

func (h *outsideHarness) report(made *jobsv1.CreatedRun, name string) (bool, error) {
	defer h.finish()
	out, err := h.peer.ReportLifecycle(h.Context(), &jobspeerv1.ReportLifecycleRequest{RunId: made.GetRun().GetId(), Attempt: 1, Event: name, Message: "why"})
	return out.GetApplied(), err
}

func (h *outsideHarness) exec(sql string, args ...any) {
	h.Helper()
	_, err := h.pool.Exec(h.Context(), sql, args...)
	require.NoError(h, err)
}

func (h *outsideHarness) text(sql string, args ...any) (out string) {
	h.Helper()
	require.NoError(h, h.pool.QueryRow(h.Context(), sql, args...).Scan(&out))
	return out
}
