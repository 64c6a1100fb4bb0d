package jobapi

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// failing is a db.Recorder that records nothing and returns the error in its field.
type failing struct{ err error }

func (f failing) Record(context.Context, pgx.Tx, string, string, string, any) error { return f.err }

// open implements the lookups of admission.Inputs so that the job that the tests submit passes every gate.
type open struct{}

func (o open) Resolve(ctx context.Context, ref jobspec.RecipeRef, _ jobspec.PackageRef, b jobspec.Bindings) (*jobspec.Resolved, error) {
	if ref.Name == "broken/catalog" {
		return nil, fault.New(fault.Unavailable, "", "the registry is down")
	}
	in, err := o.Bind(ctx, b)
	return &jobspec.Resolved{Inputs: in, Recipes: []jobspec.Recipe{{
		Name: ref.Name, Version: "1.0.0", Digest: "sha256:d1", State: "active", Framework: jobspec.Framework{RuntimeID: "np"},
	}}}, err
}

func (open) Files(context.Context, *jobspec.Inputs) error { return nil }

func (open) Bind(_ context.Context, b jobspec.Bindings) (*jobspec.Inputs, error) {
	return &jobspec.Inputs{Datasets: []jobspec.Bound{{Name: "train", Ref: b.Datasets["train"]}}}, nil
}

func (open) Project(_ context.Context, key string) (*admission.ProjectFacts, error) {
	return &admission.ProjectFacts{ID: "prj_" + key, Key: key, Visibility: "all"}, nil
}

func (open) Pool(context.Context, string) (admission.PoolFacts, error) {
	return admission.PoolFacts{Known: true}, nil
}

func (open) Of(context.Context, string) (quota.Account, error) {
	return quota.Account{Limit: 8, Held: 8}, nil
}

func (open) OfTeam(context.Context, string) (quota.Account, error) {
	return quota.Account{Limit: 8, Held: 8}, nil
}

func newAdmission(t *testing.T) (*Admission, *pgxpool.Pool) {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	return &Admission{
		Inputs: &admission.Inputs{Catalog: open{}, Projects: open{}, Pools: open{}, Accounts: open{}}, Jobs: &job.Store{Events: event.NewLog(clock.Real(), ids, "jobs")}, IDs: ids, Rand: rand.Reader, Trail: failing{},
		Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clock.Real())},
	}, pool
}

func submission(change ...func(*jobsv1.SubmitJobRequest)) *jobsv1.SubmitJobRequest {
	one, eight := int32(1), int32(8)
	req := &jobsv1.SubmitJobRequest{Api: jobspec.Dialect, Spec: &jobsv1.JobSpec{
		Name: "n", Hparams: []byte(`{"optim.lr":0.01}`), Bindings: &jobsv1.Bindings{Datasets: map[string]string{"train": "ds/default/pairs@1"}},
		Recipe: &jobsv1.RecipeRef{Name: "demo/chat-tiny", Version: "1.0.0", Lock: &jobsv1.RecipeLock{
			Name: "demo/chat-tiny", Version: "1.0.0", Digest: "sha256:d1", Framework: &jobsv1.RecipeLockFramework{RuntimeId: "np"},
		}},
		Resources: &jobsv1.Resources{Pools: []*jobsv1.PoolRequest{{Pool: "gpu", Nodes: &one, GpusPerNode: &eight}}},
	}}
	for _, c := range change {
		c(req)
	}
	return req
}

func as(ctx context.Context) context.Context {
	alice := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "alice", Role: authn.RoleOperator}
	return authn.WithNeed(authn.NewContext(ctx, alice), authn.NeedEdit)
}

func rows(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM run) + (SELECT count(*) FROM event)
		+ (SELECT count(*) FROM account) + (SELECT count(*) FROM idempotency) + (SELECT count(*) FROM river_job)`).Scan(&n))
	return n
}

// A failure after the last gate leaves nothing behind.
func TestServer_SubmitJob_failureLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		spoil func(a *Admission)
		req   *jobsv1.SubmitJobRequest
		ctx   func(ctx context.Context) context.Context
		code  string
	}{
		"audit record":      {spoil: func(a *Admission) { a.Trail = failing{broken} }},
		"random source":     {spoil: func(a *Admission) { a.Rand = iotest.ErrReader(broken) }},
		"duplicate hparam":  {req: submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Hparams = []byte(`{"optim.lr":0.01,"optim.lr":0.02}`) }), code: admission.Hparams},
		"cancelled request": {ctx: func(ctx context.Context) context.Context { ctx, end := context.WithCancel(ctx); end(); return ctx }},
		"registry down":     {req: submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Recipe.Name = "broken/catalog" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, pool := newAdmission(t)
			req, ctx := c.req, as(t.Context())
			if req == nil {
				req = submission()
			}
			if c.spoil != nil {
				c.spoil(a)
			}
			if c.ctx != nil {
				ctx = c.ctx(ctx)
			}
			_, err := (&Server{Admission: a}).SubmitJob(ctx, req)
			require.Error(t, err)
			if c.code != "" {
				require.Equal(t, c.code, fault.From(err).Code)
				require.Equal(t, fault.Refused, fault.From(err).Kind)
			}
			require.Zero(t, rows(t, pool))
		})
	}
}

func TestServer_SubmitJob_queuesJobWithoutHoldingGPUs(t *testing.T) {
	t.Parallel()
	a, pool := newAdmission(t)
	got, err := (&Server{Admission: a}).SubmitJob(as(t.Context()), submission())
	require.NoError(t, err)
	require.NoError(t, id.Check(id.Job, got.GetId()))
	require.NoError(t, id.Check(id.Run, got.GetRunId()))
	require.Equal(t, jobsv1.JobState_JOB_STATE_QUEUED, got.GetState())
	require.Equal(t, job.WaitNew, got.GetQueue().GetReason(), "a job that the scheduler has not seen must have the reason new")
	require.Equal(t, 3, rows(t, pool), "a queued job must add only a job, a run and an event, and hold no GPUs")
	again, err := (&Server{Admission: a}).SubmitJob(as(t.Context()), submission())
	require.NoError(t, err)
	require.NotEqual(t, got.GetId(), again.GetId(), "without an idempotency key, each submission must be a new job")
	require.NotEqual(t, got.GetSpecDigest(), again.GetSpecDigest(), "each job must get its own seed")
	seeded := submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Seed = new(int64(7)) })
	one, err := (&Server{Admission: a}).SubmitJob(as(t.Context()), seeded)
	require.NoError(t, err)
	two, err := (&Server{Admission: a}).SubmitJob(as(t.Context()), seeded)
	require.NoError(t, err)
	require.Equal(t, one.GetSpecDigest(), two.GetSpecDigest(), "equal specs must have equal digests")
}
