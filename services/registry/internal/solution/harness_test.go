package solution_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// projects knows every project except "nowhere". The id is derived from the key, and the project "closed" is archived.
type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	if key == "nowhere" {
		return nil, nil
	}
	visibility := "team"
	if key == access.DefaultProject {
		visibility = "all"
	}
	return &access.Project{ID: "prj_" + key, Key: key, Visibility: visibility, Archived: key == "closed"}, nil
}

// discard is an object store that accepts and discards the objects of the seeder.
type discard struct{ blob.Store }

func (discard) Put(_ context.Context, _ string, r io.Reader, _ int64, _ string) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// harness contains the servers of solutions and of applications, with a catalog.
type harness struct {
	*solution.Applications

	t         *testing.T
	solutions *solution.Server
	clock     *clock.Fake
}

const recipeText = `{"api":"service/v1","name":"sft/tiny","version":"VERSION","title":"t","description":"d","state":"active",
	"framework":{"name":"numpy","runtime_id":"np-1"},"entrypoint":["x"],"params_schema":{"type":"object"}}`

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	clk := clock.NewFake(fixtures.Now())
	ids := id.NewSource(clk, rand.Reader)
	seeder := &recipe.Seeder{
		Pool: pool, Blobs: discard{}, Files: fstest.MapFS{"sft/tiny/recipe.json": {Data: []byte(recipeText)}}, ManifestName: "recipe.json", Clock: clk,
		Log: slog.New(slog.DiscardHandler), Done: make(chan struct{}),
	}
	close(seeder.Done)
	deps := &solution.Deps{
		Pool: pool, Projects: projects{}, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, Events: event.NewLog(clk, ids, "registry"),
		Audit: audit.NewLog(clk, ids, "registry"), Clock: clk, IDs: ids,
	}
	d := &harness{t: t, clock: clk, solutions: &solution.Server{Deps: deps}, Applications: &solution.Applications{
		Deps: deps, Catalog: &solution.Catalog{Pool: pool, Seeder: seeder},
	}}
	d.recipe("1.0", "active", "sha256:recipe-1")
	d.dataset("train", "v1", false, "one")
	d.dataset("held", "v1", false, "two")
	d.model("base")
	d.environment("math", "v1", environment.Taskset{Digest: "sha256:tasks", Count: 12})
	d.rubric("fair", 1)
	return d
}

func (d *harness) recipe(version, state, digest string) {
	d.t.Helper()
	text := fmt.Sprintf(`{"api":"service/v1","name":"sft/tiny","version":%q,"state":%q}`, version, state)
	_, err := recipe.Store{}.Ship(d.t.Context(), d.Pool, &recipe.Version{
		Manifest: recipe.Manifest{Name: "sft/tiny", Version: version, State: state}, Text: []byte(text), Digest: digest, LockedAt: fixtures.Now(),
	})
	require.NoError(d.t, err)
}

func team() access.Owner {
	return access.Owner{UserID: "usr_1", UserName: "ann", ProjectID: "prj_team", Project: "team", Visibility: "team"}
}

func (d *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) {
	d.t.Helper()
	require.NoError(d.t, pg.InTx(d.t.Context(), d.Pool, fn))
}

func (d *harness) dataset(name, version string, protected bool, bytes ...string) {
	d.t.Helper()
	s := &dataset.Dataset{Owner: team(), ID: "ds_" + name, Name: name, Format: "jsonl", Protected: protected, CreatedAt: fixtures.Now()}
	v := &dataset.Version{
		ID: "dsv_" + name + version, DatasetID: s.ID, Version: version, State: dataset.StateUploading, CreatorID: "usr_1", CreatedAt: fixtures.Now(), UploadUntil: fixtures.Now(),
	}
	v.Digest = "sha256:" + name + version
	for i, b := range bytes {
		v.Manifest = append(v.Manifest, dataset.File{Path: fmt.Sprint(i), Size: 3, SHA256: b})
	}
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if _, err := d.Catalog.Datasets.Get(ctx, tx, access.ServiceScope().WithNeed(authn.NeedRead), s.ID); err != nil {
			if err := d.Catalog.Datasets.Insert(ctx, tx, s); err != nil {
				return err
			}
		}
		if _, err := d.Catalog.Datasets.InsertVersion(ctx, tx, v); err != nil {
			return err
		}
		v.CommittedAt = new(fixtures.Now())
		_, err := d.Catalog.Datasets.Commit(ctx, tx, v)
		return err
	})
}

func (d *harness) model(name string) {
	d.t.Helper()
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := d.Catalog.Models.Insert(ctx, tx, &model.Model{Owner: team(), ID: "mdl_" + name, Name: name, Task: "chat", CreatedAt: fixtures.Now()}); err != nil {
			return err
		}
		_, _, err := d.Catalog.Models.InsertVersion(ctx, tx, &model.Version{
			ID: "mv_" + name, ModelID: "mdl_" + name, Status: model.StatusReady, Lifecycle: "candidate", Format: "gguf", Digest: "sha256:" + name,
			Facts: json.RawMessage(`{}`), CreatedAt: fixtures.Now(),
		})
		return err
	})
}

func (d *harness) environment(name, version string, t environment.Taskset) {
	d.t.Helper()
	manifest, err := json.Marshal(map[string]any{"taskset": t})
	require.NoError(d.t, err)
	v := &environment.Version{
		ID: "envv_" + name + version, EnvironmentID: "env_" + name, Version: version, State: environment.StateValidating, Digest: "sha256:" + name + version,
		Manifest: manifest, CreatorID: "usr_1", CreatedAt: fixtures.Now(),
	}
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		s := d.Catalog.Environments
		e := &environment.Environment{Owner: team(), ID: "env_" + name, Name: name, CreatedAt: fixtures.Now()}
		if _, err := s.Get(ctx, tx, access.ServiceScope().WithNeed(authn.NeedRead), e.ID); err != nil {
			if err := s.Insert(ctx, tx, e); err != nil {
				return err
			}
		}
		if _, err := s.InsertVersion(ctx, tx, v, "tasks", fixtures.Now()); err != nil {
			return err
		}
		_, err := s.Settle(ctx, tx, v, environment.StateReady, "", fixtures.Now())
		return err
	})
}

func (d *harness) rubric(name string, versions int) {
	d.t.Helper()
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		s := d.Catalog.Rubrics
		if err := s.Insert(ctx, tx, &rubric.Rubric{Owner: team(), ID: "rub_" + name, Name: name, CreatedAt: fixtures.Now()}); err != nil {
			return err
		}
		for n := range versions {
			v := &rubric.Version{ID: fmt.Sprint("rubv_", name, n), RubricID: "rub_" + name, Status: rubric.StatusDraft, Digest: fmt.Sprint("sha256:", name, n+1), CreatedAt: fixtures.Now()}
			kept, _, err := s.InsertVersion(ctx, tx, v, []byte(`{}`))
			if err != nil {
				return err
			}
			if _, err := s.Publish(ctx, tx, kept, fixtures.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// headers collects the headers that a call sets.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// status returns the HTTP status set by the call, or "" for the route's default.
func (h *headers) status() string {
	if s := h.sent.Get("x-service-status"); len(s) > 0 {
		return s[0]
	}
	return ""
}

// as returns the context of a call by the given user, who has the given role in the projects team, closed and second,
// and the headers that the call sets. If key is not empty, it becomes the idempotency key.
func as(t *testing.T, subject, role, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		for _, p := range []string{"prj_team", "prj_closed", "prj_second"} {
			c.Projects = append(c.Projects, authn.ProjectRole{Project: p, Role: role})
		}
	}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

const manifest = `{"name":"support","version":"1.0","recipe":"sft/tiny@1.0","purpose":{"seats":3,"share":0.5,"for":"<all> & more"},` +
	`"requirements":[{"gpus":8},{"note":"large"}],"toolchain":{"python":"3.12"}}`

// validRequest returns a valid request to which the given functions are applied.
func validRequest(change ...func(*registryv1.CreateSolutionApplicationRequest)) *registryv1.CreateSolutionApplicationRequest {
	in := &registryv1.CreateSolutionApplicationRequest{Project: "team", Solution: []byte(manifest), Bindings: &registryv1.SolutionBindings{
		Model: new("mdl/team/base@1"), TrainDataset: new("ds/team/train@v1"), ValidationDataset: new("ds/team/held@v1"),
		Taskset: new("env/team/math@v1"), Rubric: new("rub/team/fair@1"),
	}}
	for _, c := range change {
		c(in)
	}
	return in
}

func (d *harness) apply(change ...func(*registryv1.CreateSolutionApplicationRequest)) (*registryv1.SolutionApplicationOut, string, error) {
	d.t.Helper()
	ctx, h := as(d.t, "usr_1", authn.ProjectEditor, "")
	out, err := d.CreateSolutionApplication(ctx, validRequest(change...))
	return out, h.status(), err
}

func (d *harness) count(from string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.Pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}
