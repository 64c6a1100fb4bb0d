package run_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// harness has the runs of newPool and a server.
type harness struct {
	*testing.T

	pool, owner *pgxpool.Pool
	clock       *clock.Fake
	server      *run.Server
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(fixtures.Now())
	ids := id.NewSource(clk, rand.Reader)
	h := &harness{T: t, clock: clk}
	h.pool, h.owner = newPools(t)
	h.server = &run.Server{
		Pool: h.pool, Projects: projects{}, Clock: clk, Events: event.NewLog(clk, ids, "jobs"),
		Trail: &db.AuditTrail{Log: audit.NewLog(clk, ids, "jobs")},
	}
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.Helper()
	_, err := h.pool.Exec(h.Context(), sql, args...)
	require.NoError(h, err)
}

func (h *harness) count(sql string, args ...any) (n int) {
	h.Helper()
	require.NoError(h, h.pool.QueryRow(h.Context(), sql, args...).Scan(&n))
	return n
}

// update calls UpdateRun as alice, the owner of the first run, and requires that it succeeds.
func (h *harness) update(req *jobsv1.UpdateRunRequest) *jobsv1.Run {
	h.Helper()
	out, err := h.server.UpdateRun(edits(alice(h.Context())), req)
	require.NoError(h, err)
	return out
}

// The projects of the tests, as the auth service knows them.
const (
	project = "prj_01jd0000000000000000000001"
	shown   = "prj_01jd0000000000000000000002"
)

type projects struct{}

func (projects) GetProject(_ context.Context, req *authpeerv1.GetProjectRequest, _ ...grpc.CallOption) (*authpeerv1.Project, error) {
	visibility, known := map[string]string{project: "team", shown: "all"}[req.GetProject()]
	if !known {
		return nil, fault.Absentf("project", req.GetProject())
	}
	return &authpeerv1.Project{Id: req.GetProject(), Visibility: visibility}, nil
}

// headers collects the headers of a response.
type headers struct {
	grpc.ServerTransportStream
	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// user returns the context of a call that only reads. The project roles are pairs of a project and a role.
func user(ctx context.Context, subject string, roles ...string) context.Context {
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject + "-name", Role: authn.RoleOperator}
	for i := 0; i < len(roles); i += 2 {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: roles[i], Role: roles[i+1]})
	}
	ctx = grpc.NewContextWithServerTransportStream(ctx, &headers{})
	return authn.NewContext(authn.WithNeed(ctx, authn.NeedRead), c)
}

func alice(ctx context.Context) context.Context { return user(ctx, "usr_a") }

// edits returns the context of a call that changes something.
func edits(ctx context.Context) context.Context { return authn.WithNeed(ctx, authn.NeedEdit) }

// etag returns the ETag of the response to the call with this context.
func etag(ctx context.Context) []string {
	return grpc.ServerTransportStreamFromContext(ctx).(*headers).sent.Get("etag")
}

// matching adds an If-Match header to a call.
func matching(ctx context.Context, tag string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("if-match", tag))
}
