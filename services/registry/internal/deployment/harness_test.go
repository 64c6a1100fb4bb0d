package deployment

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

// projects has one project that is visible to all and one that is visible to its team.
type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	switch key {
	case "default":
		return &access.Project{ID: "prj_0", Key: key, Visibility: "all"}, nil
	case "team":
		return &access.Project{ID: "prj_1", Key: key, Visibility: "team"}, nil
	}
	return nil, nil //nolint:nilnil // nil means no such project
}

// pools refuses the pools whose names are "open" and "slurm".
type pools struct{}

func (pools) Check(_ context.Context, pool string) error {
	if pool == "open" {
		return fault.New(fault.Forbidden, "isolation", "isolation: refused")
	}
	if pool == "slurm" {
		return fault.New(fault.Unconfigured, "slurm_engine", "engines do not run on Slurm")
	}
	return nil
}

// replicas records which epochs were awaited and how often Settle was called.
type replicas struct {
	awaited []int64
	settled int
	err     error
}

func (r *replicas) Await(_ context.Context, epoch int64) error {
	r.awaited = append(r.awaited, epoch)
	return r.err
}

func (r *replicas) Settle(context.Context) error { r.settled++; return r.err }

// serverHarness is a server with a Changer and a model. The model has one version, which llama.cpp can serve.
type serverHarness struct {
	*harness
	*Server

	replicas *replicas
	model    string
}

func newServerHarness(t *testing.T) *serverHarness {
	t.Helper()
	b := open(t)
	d := &serverHarness{harness: b, replicas: &replicas{}}
	d.Server = &Server{
		Pool: b.Pool, Changer: b.Changer, Store: b.Store, Revisions: b.Revisions, Projects: projects{}, Replicas: d.replicas, Pools: pools{},
		Once: &idempotency.Once{Pool: b.Pool, Keys: idempotency.New(b.clock)}, Clock: b.clock, IDs: b.ids, Rand: rand.Reader,
		Probe: 2 * time.Minute, PublicURL: func() string { return "https://box.example/" },
	}
	d.model = d.addModel("prj_1", "team")
	return d
}

// addModel inserts a model with one ready version.
func (d *serverHarness) addModel(project, visibility string) string {
	d.t.Helper()
	m := &model.Model{
		Owner: access.Owner{UserID: "usr_1", ProjectID: project, Project: project, Visibility: visibility},
		ID:    d.ids.New(id.Model), Name: "m", Task: "chat", CreatedAt: d.clock.Now(),
	}
	_, v := ready()
	v.ID, v.ModelID, v.Lifecycle, v.Facts = d.ids.New(id.ModelVersion), m.ID, "candidate", []byte(`{}`)
	require.NoError(d.t, d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := d.Models.Insert(ctx, tx, m); err != nil {
			return err
		}
		_, _, err := d.Models.InsertVersion(ctx, tx, v)
		return err
	}))
	return m.ID
}

func (d *serverHarness) create() *registryv1.CreateRevisionRequest {
	return &registryv1.CreateRevisionRequest{
		DeploymentId: d.d.ID, Source: &registryv1.RevisionSource{ModelId: d.model, Version: 1},
	}
}

// headers records the response headers of a call.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// as returns the context of a caller's request with an idempotency key, and its response headers.
func as(t *testing.T, c *authn.Caller, key string) (context.Context, *headers) {
	t.Helper()
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

// person returns a caller. The functions below return the owner of the deployment, an editor and a viewer of the team's
// project, a user without a role in that project, and an admin.
func person(subject, role string, in ...authn.ProjectRole) *authn.Caller {
	return &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: role, Projects: in}
}

func owner() *authn.Caller { return person("usr_1", authn.RoleOperator, inTeam(authn.ProjectEditor)) }

func editor() *authn.Caller { return person("usr_2", authn.RoleOperator, inTeam(authn.ProjectEditor)) }

func viewer() *authn.Caller { return person("usr_3", authn.RoleOperator, inTeam(authn.ProjectViewer)) }

func stranger() *authn.Caller { return person("usr_4", authn.RoleOperator) }

func admin() *authn.Caller { return person("usr_5", authn.RoleAdmin) }

func inTeam(role string) authn.ProjectRole { return authn.ProjectRole{Project: "prj_1", Role: role} }
