package submit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
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
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// spoils are one fault for each gate, in the order of the gates.
func spoils() []struct {
	gate  string
	spoil func(d *Draft)
} {
	return []struct {
		gate  string
		spoil func(d *Draft)
	}{
		{GateDialect, func(d *Draft) { d.API = "service/v0" }},
		{GateEnvironment, func(d *Draft) { d.Spec.Env = map[string]string{"LD_AUDIT": "x"} }},
		{GateEntrypoint, func(d *Draft) { d.Spec.Source.Entrypoint = "python evil.py" }},
		{GateRecipe, func(d *Draft) { d.Spec.Recipe.Lock.Framework.RuntimeID = "other" }},
		{GateHparams, func(d *Draft) { d.Spec.Hparams = []byte(`{"optim.lr": 9}`) }},
		{GateProject, func(d *Draft) { d.Spec.Project = "nope" }},
		{GateBindings, func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/default/absent@1" }},
		{GateImage, func(d *Draft) { d.Spec.Image = &Image{Ref: "quay.io/a/b"} }},
		{GateHardware, func(d *Draft) {
			d.Spec.Resources.Pools = append(d.Spec.Resources.Pools, job.Pool{Pool: "tpu", Nodes: 1})
		}},
		{GateQuota, func(d *Draft) {
			d.Spec.Resources.Pools = append(d.Spec.Resources.Pools, job.Pool{Pool: "empty", Nodes: 1, GPUsPerNode: 9})
		}},
	}
}

// asked is a world that notes whom the gates asked.
type asked struct {
	fixed
	names []string
}

func (a *asked) Recipe(ctx context.Context, name string) ([]Recipe, error) {
	a.names = append(a.names, "catalog")
	return a.fixed.Recipe(ctx, name)
}

func (a *asked) Resolve(ctx context.Context, b Bindings) (*Inputs, error) {
	a.names = append(a.names, "bindings")
	return a.fixed.Resolve(ctx, b)
}

func (a *asked) Project(ctx context.Context, key string) (*Project, error) {
	a.names = append(a.names, "project")
	return a.fixed.Project(ctx, key)
}

func (a *asked) Pool(ctx context.Context, name string) (PoolFacts, error) {
	a.names = append(a.names, "pool "+name)
	return a.fixed.Pool(ctx, name)
}

func (a *asked) Of(ctx context.Context, user string) (quota.Account, error) {
	a.names = append(a.names, "account")
	return a.fixed.Of(ctx, user)
}

// Of two faults the one of the earlier gate is told, for every pair; and who could only tell something
// of a later gate is not asked.
func TestTheEarlierOfTwoFaultsIsToldAndNobodyIsAskedInVain(t *testing.T) {
	t.Parallel()
	all := []string{"catalog", "project", "bindings", "pool gpu", "account"}
	whom := map[string]int{ // of all, asked before the gate could refuse
		GateDialect: 0, GateEnvironment: 0, GateEntrypoint: 0, GateRecipe: 1, GateHparams: 1, GateProject: 2, GateBindings: 3,
		GateImage: 3, GateHardware: 4, GateQuota: 5,
	}
	for i, first := range spoils() {
		for _, second := range spoils()[i:] {
			w := &asked{}
			d := draft()
			second.spoil(d)
			first.spoil(d)
			err := Run(t.Context(), (&World{Catalog: w, Projects: w, Pools: w, Accounts: w, Registries: []string{"ghcr.io"}}).Gates(), d)
			require.Equal(t, first.gate, fault.From(err).Code, "%s before %s: %v", first.gate, second.gate, err)
			require.Contains(t, fault.From(err).Text(), first.gate+": ", "the detail names the gate")
			asked := slices.DeleteFunc(w.names, func(n string) bool { return n == "pool tpu" || n == "pool empty" })
			require.Equal(t, all[:whom[first.gate]], append([]string{}, asked...), "%s before %s", first.gate, second.gate)
		}
	}
}

// Hardware stands before quota in the order of the gates (areas-training 2.2), and the specification
// gives the gates no order. So what no pool could ever hold is refused as hardware, also where it is
// more than the account may hold, and what a pool could hold, or one without nodes yet might, is
// refused as quota. Either way the gate is named.
func TestMoreThanTheAccountMayHoldIsQuotaWhereThePoolCouldHoldIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pools []job.Pool
		gate  string
		text  string
	}{
		"as much as it may hold": {[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8}}, "", ""},
		"more, and the pool has it": {
			[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8}, {Pool: "gpu", Nodes: 1, GPUsPerNode: 1}}, GateQuota, "quota: requested 9 GPUs, 8 available",
		},
		"more, and the pool has no nodes yet": {[]job.Pool{{Pool: "empty", Nodes: 2, GPUsPerNode: 8}}, GateQuota, "quota: requested 16 GPUs, 8 available"},
		"more, summed over pools": {
			[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 4}, {Pool: "empty", Nodes: 5, GPUsPerNode: 1}}, GateQuota, "quota: requested 9 GPUs, 8 available",
		},
		"more, on nodes without GPUs":     {[]job.Pool{{Pool: "cpu", Nodes: 2, GPUsPerNode: 8}}, GateHardware, ""},
		"more than any node of the pool":  {[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 9}}, GateHardware, ""},
		"more than the pool has of nodes": {[]job.Pool{{Pool: "gpu", Nodes: 3, GPUsPerNode: 4}}, GateHardware, ""},
		"nodes without GPUs, as many":     {[]job.Pool{{Pool: "empty", Nodes: 1000}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			d.Spec.Resources.Pools = c.pools
			err := Run(t.Context(), world().Gates(), d)
			if c.gate == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.gate, fault.From(err).Code, "%v", err)
			require.Equal(t, c.gate == GateQuota, fault.From(err).Kind == fault.Forbidden)
			if c.text != "" {
				require.Equal(t, c.text, fault.From(err).Text())
			}
		})
	}
}

// failing is a trail that records nothing, or fails.
type failing struct{ err error }

func (f failing) Record(context.Context, pgx.Tx, string, string, string, any) error { return f.err }

func newAdmission(t *testing.T) (*Admission, *pgxpool.Pool) {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	return &Admission{
		World: world(), Jobs: &job.Store{Events: event.NewLog(clock.Real(), ids, "jobs")}, IDs: ids, Rand: rand.Reader, Trail: failing{},
		Once: &idem.Once{Pool: pool, Keys: idem.New(clock.Real())},
	}, pool
}

func submission(change ...func(*jobsv1.SubmitJobRequest)) *jobsv1.SubmitJobRequest {
	one, eight := int32(1), int32(8)
	req := &jobsv1.SubmitJobRequest{Api: Dialect, Spec: &jobsv1.JobSpec{
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
	return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "alice", Role: authn.RoleOperator})
}

func rows(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM run) + (SELECT count(*) FROM event)
		+ (SELECT count(*) FROM account) + (SELECT count(*) FROM idempotency) + (SELECT count(*) FROM river_job)`).Scan(&n))
	return n
}

// What breaks between the last gate and the commit leaves nothing, as a refusal does.
func TestASubmissionThatBreaksLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		spoil func(a *Admission)
		req   *jobsv1.SubmitJobRequest
		ctx   func(ctx context.Context) context.Context
		code  string
	}{
		"the audit row":       {spoil: func(a *Admission) { a.Trail = failing{broken} }},
		"no randomness":       {spoil: func(a *Admission) { a.Rand = iotest.ErrReader(broken) }},
		"a name there twice":  {req: submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Hparams = []byte(`{"optim.lr":0.01,"optim.lr":0.02}`) }), code: GateHparams},
		"its caller is gone":  {ctx: func(ctx context.Context) context.Context { ctx, end := context.WithCancel(ctx); end(); return ctx }},
		"the registry's away": {req: submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Recipe.Name = "broken/catalog" })},
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
			_, err := a.Submit(ctx, req)
			require.Error(t, err)
			if c.code != "" {
				require.Equal(t, c.code, fault.From(err).Code)
				require.Equal(t, fault.Refused, fault.From(err).Kind)
			}
			require.Zero(t, rows(t, pool))
		})
	}
}

func TestAnAdmittedJobIsQueuedAndHoldsNothingYet(t *testing.T) {
	t.Parallel()
	a, pool := newAdmission(t)
	got, err := a.Submit(as(t.Context()), submission())
	require.NoError(t, err)
	require.NoError(t, id.Check(id.Job, got.GetId()))
	require.NoError(t, id.Check(id.Run, got.GetRunId()))
	require.Equal(t, jobsv1.JobState_JOB_STATE_QUEUED, got.GetState())
	require.Equal(t, job.WaitNew, got.GetQueue().GetReason(), "nobody has looked at it yet")
	require.Equal(t, 3, rows(t, pool), "job, run and event: the account holds GPUs only of what is placed")
	again, err := a.Submit(as(t.Context()), submission())
	require.NoError(t, err)
	require.NotEqual(t, got.GetId(), again.GetId(), "without a key each submission is a job")
	require.NotEqual(t, got.GetSpecDigest(), again.GetSpecDigest(), "each has drawn a seed of its own")
	seeded := submission(func(r *jobsv1.SubmitJobRequest) { r.Spec.Seed = new(int64(7)) })
	one, err := a.Submit(as(t.Context()), seeded)
	require.NoError(t, err)
	two, err := a.Submit(as(t.Context()), seeded)
	require.NoError(t, err)
	require.Equal(t, one.GetSpecDigest(), two.GetSpecDigest(), "equal specs have equal digests")
}

func TestEveryReservedVariableIsRefusedInAnyCase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "ld_preload", "DYLD_INSERT_LIBRARIES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
		"SERVICE_JOB_TOKEN", "Service_Job_Run_Id", "SERVICE_JOB_ENABLED", "PYTHONPATH", "PYTHONHOME", "PIP_INDEX_URL", "UV_CACHE_DIR",
		"BASH_ENV", "ENV", "IFS", "PATH", "HOME", "TMPDIR", "BASH_FUNC_x", "GCONV_PATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "KUBEFLOW_TRAINER_SERVER_URL",
	} {
		d := &Draft{Spec: Spec{Env: map[string]string{name: "x"}}}
		require.Equal(t, GateEnvironment, fault.From(checkEnvironment(d)).Code, name)
	}
	for _, name := range []string{"WANDB_MODE", "MY_PATH", "HF_HOME", "OMP_NUM_THREADS", "_x", "CUDA_LAUNCH_BLOCKING", "TOKENIZERS_PARALLELISM"} {
		require.NoError(t, checkEnvironment(&Draft{Spec: Spec{Env: map[string]string{name: "x"}}}), name)
	}
	for size, ok := range map[int]bool{maxEnvValue: true, maxEnvValue + 1: false} {
		d := &Draft{Spec: Spec{Env: map[string]string{"A": fmt.Sprintf("%0*d", size, 0)}}}
		require.Equal(t, ok, checkEnvironment(d) == nil, "a value of %d bytes", size)
	}
}
