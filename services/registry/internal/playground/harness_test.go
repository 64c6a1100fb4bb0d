package playground

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// orders records the revision of each order to start or end an engine.
type orders struct {
	mu sync.Mutex
	of []string
}

func (o *orders) Order(_ context.Context, _ pgx.Tx, revisionID string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = append(o.of, revisionID)
	return nil
}

type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	if key == "all" {
		return &access.Project{ID: "prj_0", Key: key, Visibility: "all"}, nil
	}
	return &access.Project{ID: "prj_1", Key: key, Visibility: "team"}, nil
}

// harness is a server, a model with one version, and the Changer that applies observations of engines.
type harness struct {
	*Server

	t      *testing.T
	peer   *PeerServer
	seen   *deployment.Changer
	clock  *clock.Fake
	orders *orders
	model  string
}

// pools refuses the pool whose name is "open".
type pools struct{}

func (pools) Check(_ context.Context, pool string) error {
	if pool == "open" {
		return fault.New(fault.Forbidden, "isolation", "isolation: refused")
	}
	return nil
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	ids, revisions := id.NewSource(clk, rand.Reader), &revision.Store{Keys: keys}
	b := &harness{t: t, clock: clk, orders: &orders{}}
	events, trail := event.NewLog(clk, ids, "registry"), audit.NewLog(clk, ids, "registry")
	changer := &Changer{Pool: pool, Revisions: revisions, Orders: b.orders, Events: events, Audit: trail, Clock: clk}
	b.Server = &Server{
		Pool: pool, Changer: changer, Revisions: revisions, Projects: projects{}, Pools: pools{}, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, Clock: clk,
		IDs: ids, Probe: time.Minute,
	}
	b.peer = &PeerServer{Server: b.Server}
	b.seen = &deployment.Changer{
		Pool: pool, Store: &deployment.Store{}, Revisions: revisions, Orders: b.orders, Events: events, Audit: trail, Clock: clk, Sessions: changer,
	}
	b.model = ids.New(id.Model)
	b.exec(`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at)
		VALUES ($1, 'm', 'usr_1', 'ann', 'prj_1', 'team', 'all', '', 'chat', now())`, b.model)
	b.exec(`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts, created_at)
		VALUES ('mv_1', $1, 1, 'ready', 'candidate', 'r', 'a', 'gguf', 'sha256:ab', 9, 'blob://x', 'm.gguf', false, '{}', now())`, b.model)
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.Pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// as returns the context of a caller's request, with a role in the team's project if role is set.
func (b *harness) as(subject, role, key string) context.Context {
	b.t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_1", Role: role}}
	}
	ctx := authn.WithNeed(authn.NewContext(b.t.Context(), c), authn.NeedEdit)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx
}

func (b *harness) ann() context.Context { return b.as("usr_1", authn.ProjectEditor, "") }

// ask returns a request for a session with the given number of targets.
func (b *harness) ask(targets int) *registryv1.CreatePlaygroundSessionRequest {
	in := &registryv1.CreatePlaygroundSessionRequest{Project: "team", Title: "try it"}
	for range targets {
		in.Targets = append(in.Targets, &registryv1.PlaygroundTargetRequest{Source: &registryv1.RevisionSource{ModelId: b.model, Version: 1}})
	}
	return in
}

func (b *harness) create(change ...func(*registryv1.CreatePlaygroundSessionRequest)) *registryv1.PlaygroundSession {
	b.t.Helper()
	in := b.ask(1)
	for _, c := range change {
		c(in)
	}
	s, err := b.CreatePlaygroundSession(b.ann(), in)
	require.NoError(b.t, err)
	return s
}

func (b *harness) now(s *registryv1.PlaygroundSession) *registryv1.PlaygroundSession {
	b.t.Helper()
	got, err := b.GetPlaygroundSession(b.ann(), &registryv1.GetPlaygroundSessionRequest{PlaygroundId: s.GetId()})
	require.NoError(b.t, err)
	return got
}

func (b *harness) engines(s *registryv1.PlaygroundSession) []*revision.Revision {
	b.t.Helper()
	held, err := b.Revisions.Of(b.t.Context(), b.Pool, []string{s.GetId()})
	require.NoError(b.t, err)
	return held[s.GetId()]
}

// see applies an observation of a target's engine.
func (b *harness) see(r *revision.Revision, o revision.Observation) {
	b.t.Helper()
	o.WorkID, o.Generation, o.Fence, o.NodeID = r.WorkID, r.Generation, 1, "nod_1"
	_, err := b.seen.Observe(b.t.Context(), o)
	require.NoError(b.t, err)
}

func serving() revision.Observation {
	return revision.Observation{Phase: revision.PhaseRunning, Report: &revision.Report{
		Ready: true, Engine: revision.Engine{PID: 7, Address: "http://127.0.0.1:9", Key: secret.New("engine-key")},
	}}
}

// events returns the types of a session's events, oldest first.
func (b *harness) events(s *registryv1.PlaygroundSession) (all []string) {
	b.t.Helper()
	found, err := event.List(b.t.Context(), b.Pool, SubjectKind, s.GetId(), request.Page{Limit: 100})
	require.NoError(b.t, err)
	for _, e := range found {
		all = append(all, fmt.Sprint(e.Type, " ", e.To))
	}
	return all
}
