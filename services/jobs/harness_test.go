package jobs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// patience is the longest time for which a test waits before it fails.
const patience = 2 * time.Minute

// harness runs the service with a real database, real notifications, and fakes of the other services.
type harness struct {
	t      *testing.T
	bus    *rpc.Bus
	signer *authn.Signer
	keys   *authn.Keys
	db     *pgtest.DB
	pool   *pgxpool.Pool
	ids    *id.Source
	cfg    jobs.Config
	deps   jobs.Deps

	catalog *fakeCatalog
	ingest  *fakeIngest
	people  *fakeAccounts

	svc  *jobs.Service
	stop func()
}

func newHarness(t *testing.T, change ...func(*jobs.Config)) *harness {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	raw := make([]byte, 32)
	_, err = rand.Read(raw)
	require.NoError(t, err)
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: raw})
	require.NoError(t, err)
	w := &harness{
		t: t, bus: rpc.Memory(rpc.ClientOptions{Clock: clk}), ids: ids, keys: authn.StaticKeys(clk, key.Public()),
		signer: authn.NewSigner(clk, func() string { return ids.New(id.TokenRow) }, func() authn.SigningKey { return key }),
		db:     pgtest.New(t, pgtest.Schema{Name: jobs.Name, Migrations: jobs.Migrations()}),
		people: newAccounts(), catalog: newCatalog(), ingest: &fakeIngest{closed: make(chan *ingestpeerv1.CloseRunRequest, 1000)},
		cfg: jobs.Config{
			DefaultGPULimit: 8, DefaultTeamGPULimit: 64, NodeLease: time.Second, FenceTimeout: 90 * time.Second, JoinTimeout: time.Hour, SchedulerInterval: 200 * time.Millisecond, SlurmWorks: 200,
			ImageRegistries: []string{"registry.example:5000", "ghcr.io"},
		},
	}
	w.pool = w.db.Pool(jobs.Name)
	for _, c := range change {
		c(&w.cfg)
	}
	require.NoError(t, w.cfg.Validate())
	w.deps = jobs.Deps{
		Pool: w.pool, Projects: fakeProjects{}, Accounts: w.people, Catalog: w.catalog, RunData: w.ingest, Blobs: fakeBlobs{}, CA: fakeCA{},
		Keyring: ring, Clock: clk, IDs: ids, Rand: rand.Reader, Log: quiet(),
		PublicURL:    func() string { return "http://signalbox.example" },
		AgentAddress: func() string { return "127.0.0.1:7443" },
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func quiet() *slog.Logger {
	out := io.Discard
	if os.Getenv("TEST_LOG") != "" {
		out = os.Stderr
	}
	return slog.New(slog.NewTextHandler(out, nil))
}

// start runs the service. stop ends it without a shutdown, like a crash of the process.
func (w *harness) start() {
	w.t.Helper()
	svc, err := jobs.New(w.t.Context(), w.cfg, w.deps)
	require.NoError(w.t, err)
	require.NoError(w.t, svc.Ready(w.t.Context()))
	server := rpc.NewServer(rpc.ServerOptions{
		Service: jobs.Name, Log: w.deps.Log, Clock: w.deps.Clock, NewRequestID: func() string { return w.ids.New(id.Request) },
		Verifier: authn.NewVerifier(w.deps.Clock, w.keys), Classify: pg.Classify,
	})
	svc.Register(server)
	l, err := w.bus.As(jobs.Name).Listen(jobs.Name)
	require.NoError(w.t, err)
	agents, err := w.bus.As(jobs.Name).ListenAgents(jobs.Name)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(ctx, l, agents) })
	done.Go(func() { _ = process.Group(ctx, svc.Workers()...) })
	w.svc = svc
	w.stop = func() {
		cancel()
		done.Wait()
		w.stop = func() {}
	}
}

func (w *harness) dial(as string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := w.bus.As(as).Dial(jobs.Name)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as returns a context in which calls are authenticated as the given caller.
func (w *harness) as(c authn.Caller) context.Context {
	w.t.Helper()
	token, expires, err := w.signer.Sign(&c)
	require.NoError(w.t, err)
	return authn.WithToken(w.t.Context(), token, expires)
}

func user(name, role string, projects ...authn.ProjectRole) authn.Caller {
	return authn.Caller{Kind: authn.KindUser, Subject: "usr_" + name, Username: name, SessionID: "ses_1", Role: role, Projects: projects}
}

func alice() authn.Caller { return user("alice", authn.RoleOperator) }
func admin() authn.Caller { return user("root", authn.RoleAdmin) }

func (w *harness) jobs() jobsv1.JobServiceClient {
	return jobsv1.NewJobServiceClient(w.dial("gateway"))
}

func (w *harness) fleets() jobsv1.FleetServiceClient {
	return jobsv1.NewFleetServiceClient(w.dial("gateway"))
}

func (w *harness) runs() jobsv1.RunServiceClient {
	return jobsv1.NewRunServiceClient(w.dial("gateway"))
}

func (w *harness) runPeer() jobspeerv1.RunPeerServiceClient {
	return jobspeerv1.NewRunPeerServiceClient(w.dial("ingest"))
}

func (w *harness) works() jobspeerv1.WorkPeerServiceClient {
	return jobspeerv1.NewWorkPeerServiceClient(w.dial("registry"))
}

// fleet creates a fleet with the given pools.
func (w *harness) fleet(pools ...string) *jobsv1.Fleet {
	w.t.Helper()
	f, err := w.fleets().CreateFleet(w.as(admin()), &jobsv1.CreateFleetRequest{
		Name: fmt.Sprintf("fleet-%d", time.Now().UnixNano()), Kind: jobsv1.FleetKind_FLEET_KIND_AGENT, Pools: pools,
	})
	require.NoError(w.t, err)
	return f
}

// request returns a submission that passes every gate if the pool cpu exists.
func (w *harness) request(change ...func(*jobsv1.SubmitJobRequest)) *jobsv1.SubmitJobRequest {
	req := &jobsv1.SubmitJobRequest{Api: "service/v1", Spec: &jobsv1.JobSpec{
		Name: "first", Recipe: &jobsv1.RecipeRef{Name: "demo/chat-tiny", Version: "1.0.0", Lock: &jobsv1.RecipeLock{
			Api: "service/v1", Name: "demo/chat-tiny", Version: "1.0.0", Digest: "sha256:d1",
			Framework: &jobsv1.RecipeLockFramework{Name: "numpy", RuntimeId: "numpy-cpu-py311"},
		}},
		Hparams:   []byte(`{"optim.lr": 0.004}`),
		Bindings:  &jobsv1.Bindings{Datasets: map[string]string{"train": "ds/default/pairs@1"}},
		Resources: &jobsv1.Resources{Pools: []*jobsv1.PoolRequest{{Pool: "cpu"}}},
	}}
	for _, c := range change {
		c(req)
	}
	return req
}

func (w *harness) submit(change ...func(*jobsv1.SubmitJobRequest)) *jobsv1.Job {
	w.t.Helper()
	j, err := w.jobs().SubmitJob(w.as(alice()), w.request(change...))
	require.NoError(w.t, err)
	return j
}

func (w *harness) get(jobID string) *jobsv1.Job {
	w.t.Helper()
	j, err := w.jobs().GetJob(w.as(alice()), &jobsv1.GetJobRequest{JobId: jobID})
	require.NoError(w.t, err)
	return j
}

// await watches a job until it reaches the given state.
func (w *harness) await(jobID string, state jobsv1.JobState) *jobsv1.Job {
	w.t.Helper()
	return w.awaitJob(jobID, state.String(), func(j *jobsv1.Job) bool { return j.GetState() == state })
}

func (w *harness) awaitJob(jobID, what string, ok func(*jobsv1.Job) bool) *jobsv1.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.as(alice()), patience)
	defer cancel()
	stream, err := w.jobs().WatchJob(ctx, &jobsv1.WatchJobRequest{Id: jobID})
	require.NoError(w.t, err)
	for {
		m, err := stream.Recv()
		require.NoError(w.t, err, "job %s must become %s, but it is %s", jobID, what, w.get(jobID))
		if ok(m.GetJob()) {
			return m.GetJob()
		}
	}
}

// count returns the number of rows of a table.
func (w *harness) count(table string) int {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}
