package runsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness has four runs, a to d, oldest first: a and d of alice in prj_1, b of bob in prj_2, and c of bob, which all users
// may see. d has not ended.
type harness struct {
	testing.TB

	pool, owner *pgxpool.Pool
	server      *Server
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	cluster := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	h := &harness{TB: t, pool: cluster.Pool("jobs"), owner: cluster.OwnerPool("jobs")}
	h.server = &Server{Pool: h.pool}
	end := fixtures.Now().Add(time.Hour)
	h.insert(1, "alice", "prj_1", "project", "succeeded", &end)
	h.insert(2, "bob", "prj_2", "project", "failed", &end)
	h.insert(3, "bob", "prj_2", "all", "stopped", &end)
	h.insert(4, "alice", "prj_1", "project", "running", nil)
	return h
}

func runID(n int) string { return fmt.Sprintf("run_01jd00000000000000000000%02d", n) }

func (h *harness) insert(n int, owner, project, visibility, state string, ended *time.Time) {
	h.Helper()
	h.exec(`INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, state, attempts, recipe_lock, bindings,
			recipe_digest, spec_digest, end_reason, created_at, started_at, ended_at, tags, labels)
		VALUES ($1, 'job_' || $1, 'Run ' || $2::int, 'usr_' || $3, $3, $4, replace($4, '_', ''), $5, $6, 2, json_build_object('name', 'sft/r' || $2::int % 2), '{}', 'r', 's', '',
			$7::timestamptz, $7::timestamptz + interval '1 minute', $8, ARRAY['t' || $2::int % 2], jsonb_build_object('n', ($2::int)::text))`,
		runID(n), n, owner, project, visibility, state, fixtures.Now().Add(time.Duration(n)*time.Minute), ended)
}

func (h *harness) exec(sql string, args ...any) {
	h.Helper()
	_, err := h.pool.Exec(h.Context(), sql, args...)
	require.NoError(h, err)
}

func (h *harness) param(n int, key, value string) {
	h.Helper()
	text, x := normal(json.RawMessage(value))
	h.exec(`INSERT INTO run_hparam VALUES ($1, $2, $3, $4)`, runID(n), key, text, x)
}

func (h *harness) metric(n int, key string, last, low, high any) {
	h.Helper()
	h.exec(`INSERT INTO run_metric VALUES ($1, $2, $3, $4, $5)`, runID(n), key, last, low, high)
}

// describe gives the runs hyperparameters and metrics.
func (h *harness) describe() {
	h.Helper()
	h.param(1, "optim.lr", "0.001")
	h.param(2, "optim.lr", "1e-2")
	h.param(3, "optim.lr", `"auto"`)
	h.param(1, "optim.name", `"adam"`)
	h.param(2, "optim.name", `"sgd"`)
	h.param(4, "flag", "true")
	h.metric(1, "loss", 0.5, 0.4, 2)
	h.metric(2, "loss", 0.25, 0.2, 3)
	h.metric(3, "loss", "NaN", nil, nil)
	h.metric(4, "eval.acc", 0.75, 0.1, 0.75)
}

// user returns the context of a call that reads.
func user(ctx context.Context, name string, projects ...string) context.Context {
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_" + name, Username: name, Role: authn.RoleOperator}
	for _, p := range projects {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: p, Role: authn.ProjectViewer})
	}
	return authn.NewContext(authn.WithNeed(ctx, authn.NeedRead), c)
}

// search returns the numbers of the runs that a user with access to all runs finds.
func (h *harness) search(req *jobsv1.SearchRunsRequest) string {
	h.Helper()
	return h.found(h.find(user(h.Context(), "carol", "prj_1", "prj_2"), req))
}

func (h *harness) find(ctx context.Context, req *jobsv1.SearchRunsRequest) *jobsv1.SearchRunsResponse {
	h.Helper()
	resp, err := h.server.SearchRuns(grpc.NewContextWithServerTransportStream(ctx, nil), req)
	require.NoError(h, err, "%s", req)
	return resp
}

func (*harness) found(resp *jobsv1.SearchRunsResponse) (numbers string) {
	for _, r := range resp.GetRuns() {
		id := r.GetRun().GetId()
		numbers += id[len(id)-1:]
	}
	return numbers
}

func userIn(h *harness, name string, projects ...string) context.Context {
	return grpc.NewContextWithServerTransportStream(user(h.Context(), name, projects...), nil)
}
