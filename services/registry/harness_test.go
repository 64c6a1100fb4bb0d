package registry_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/recipes"
	"github.com/signalbox-dev/signalbox/services/registry"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// soon is the time limit of every wait. No test depends on its length.
const soon = 2 * time.Minute

// harness is a registry on its own database, with clients like those of the gateway, jobs and inference.
type harness struct {
	t      *testing.T
	cfg    registry.Config
	db     *pgtest.DB
	clock  clock.Clock
	ids    *id.Source
	ring   *secret.Keyring
	blobs  *objectstore.FileStore
	web    *httptest.Server
	bus    *rpc.Bus
	key    authn.SigningKey
	signer *authn.Signer
	runs   *runsPeer
	works  *worksPeer
	files  fs.FS
	pool   *pgxpool.Pool // overrides the pool of db if set
	log    *slog.Logger

	recipes     registryv1.RecipeServiceClient
	datasets    registryv1.DatasetServiceClient
	models      registryv1.ModelServiceClient
	deployments registryv1.DeploymentServiceClient
	catalog     registrypeerv1.CatalogPeerServiceClient
	snapshots   registrypeerv1.SnapshotServiceClient
}

// open starts a harness with one registry.
func open(t *testing.T, change ...func(*harness)) *harness {
	t.Helper()
	h := build(t)
	for _, c := range change {
		c(h)
	}
	h.start(h.bus)
	h.connect(h.bus)
	return h
}

func build(t *testing.T) *harness {
	t.Helper()
	files, err := registry.Migrations()
	require.NoError(t, err)
	h := &harness{
		t: t, cfg: registry.Config{AuthLease: 10 * time.Minute, MaxUploadMB: 8, ProbeDeadline: time.Minute},
		db: pgtest.New(t, pgtest.Schema{Name: registry.Name, Migrations: files}), clock: clock.Real(),
		runs:  &runsPeer{owners: map[string]*jobspeerv1.RunOwner{}, artifacts: map[string]*ingestpeerv1.GetArtifactResponse{}},
		works: newWorksPeer(), files: recipes.FS(), log: slog.New(slog.DiscardHandler),
	}
	h.ids = id.NewSource(h.clock, rand.Reader)
	h.ring, err = secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	h.key, err = authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	h.signer = authn.NewSigner(h.clock, func() string { return h.ids.New(id.TokenRow) }, func() authn.SigningKey { return h.key })
	h.blobs, err = objectstore.OpenFiles(objectstore.FileConfig{
		Root: t.TempDir(), Limit: 8 << 20, PublicURL: func() string { return h.web.URL }, Clock: h.clock, IDs: h.ids,
		Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.blobs.Close()) })
	h.web = httptest.NewServer(h.blobs.Handler())
	t.Cleanup(h.web.Close)
	h.bus = rpc.Memory(rpc.ClientOptions{Clock: h.clock})
	h.peers(h.bus)
	return h
}

// peers serves fakes of the other services on the bus.
func (h *harness) peers(bus *rpc.Bus) {
	h.serve(bus, "auth", func(s *rpc.Server) { authpeerv1.RegisterProjectServiceServer(s, authPeer{}) })
	h.serve(bus, "ingest", func(s *rpc.Server) { ingestpeerv1.RegisterRunDataPeerServiceServer(s, h.runs) })
	h.serve(bus, "jobs", func(s *rpc.Server) {
		jobspeerv1.RegisterRunPeerServiceServer(s, h.runs)
		jobspeerv1.RegisterWorkPeerServiceServer(s, h.works)
	})
}

// serve runs a server until the test ends or stop is called.
func (h *harness) serve(bus *rpc.Bus, name string, register func(*rpc.Server)) (stop func()) {
	h.t.Helper()
	server := rpc.NewServer(rpc.ServerOptions{
		Service: name, Log: slog.New(slog.DiscardHandler), Clock: h.clock, Classify: pg.Classify,
		NewRequestID: func() string { return h.ids.New(id.Request) },
		Verifier:     authn.NewVerifier(h.clock, authn.StaticKeys(h.clock, h.key.Public())), StopTimeout: 10 * time.Second,
	})
	register(server)
	listener, err := bus.As(name).Listen(name)
	require.NoError(h.t, err)
	return h.background(func(ctx context.Context) error { return server.Serve(ctx, listener) })
}

// background runs fn until the test ends or stop is called. Both wait until fn has returned.
func (h *harness) background(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = fn(ctx) }()
	stop = func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return stop
}

// service creates a replica of the registry that uses the peers on a bus.
func (h *harness) service(bus *rpc.Bus) *registry.Service {
	h.t.Helper()
	dial := func(name string) *grpc.ClientConn {
		conn, err := bus.As(registry.Name).Dial(name)
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	jobs := dial("jobs")
	svc, err := registry.New(h.t.Context(), h.cfg, registry.Deps{
		Pool: h.rows(), Projects: authpeerv1.NewProjectServiceClient(dial("auth")),
		Runs: jobspeerv1.NewRunPeerServiceClient(jobs), Works: jobspeerv1.NewWorkPeerServiceClient(jobs),
		RunData: ingestpeerv1.NewRunDataPeerServiceClient(dial("ingest")), Blobs: h.blobs, Recipes: h.files, Keyring: h.ring,
		Clock: h.clock, IDs: h.ids, Rand: rand.Reader, Log: h.log,
		PublicURL: func() string { return "http://127.0.0.1:8080" },
	})
	require.NoError(h.t, err)
	return svc
}

// rows returns the database pool for the next replica.
func (h *harness) rows() *pgxpool.Pool {
	if h.pool != nil {
		return h.pool
	}
	return h.db.Pool(registry.Name)
}

// start serves a replica and runs its workers.
func (h *harness) start(bus *rpc.Bus) (stop func()) {
	h.t.Helper()
	svc := h.service(bus)
	require.NoError(h.t, svc.Ready(h.t.Context()))
	loops := h.background(func(ctx context.Context) error { return process.Group(ctx, svc.Workers()...) })
	server := h.serve(bus, registry.Name, func(s *rpc.Server) { svc.Register(s) })
	return func() { server(); loops() }
}

// serveService serves a replica without its workers.
func (h *harness) serveService(svc *registry.Service) (stop func()) {
	h.t.Helper()
	return h.serve(h.bus, registry.Name, func(s *rpc.Server) { svc.Register(s) })
}

// connect creates the clients on a bus.
func (h *harness) connect(bus *rpc.Bus) {
	conn := func(as string) *grpc.ClientConn {
		c, err := bus.As(as).Dial(registry.Name)
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = c.Close() })
		return c
	}
	gateway := conn("gateway")
	h.recipes, h.datasets = registryv1.NewRecipeServiceClient(gateway), registryv1.NewDatasetServiceClient(gateway)
	h.models, h.deployments = registryv1.NewModelServiceClient(gateway), registryv1.NewDeploymentServiceClient(gateway)
	h.catalog = registrypeerv1.NewCatalogPeerServiceClient(conn("jobs"))
	h.snapshots = registrypeerv1.NewSnapshotServiceClient(conn("inference"))
}

// ann, bob and admin are the users that call the service in tests.
func ann() *authn.Caller { return person("usr_01k00000000000000000000001", "ann", authn.RoleOperator) }

func bob() *authn.Caller { return person("usr_01k00000000000000000000002", "bob", authn.RoleOperator) }

func admin() *authn.Caller {
	return person("usr_01k00000000000000000000009", "root", authn.RoleAdmin)
}

func person(subject, name, role string) *authn.Caller {
	return &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: name, Role: role, SessionID: "ses_01k00000000000000000000001"}
}

// member adds a role in the team's project to a caller.
func member(c *authn.Caller, role string) *authn.Caller {
	c.Projects = append(c.Projects, authn.ProjectRole{Project: teamProjectID, Role: role})
	return c
}

// as returns the context of a caller's request as the gateway sends it.
func (h *harness) as(c *authn.Caller, headers ...string) context.Context {
	h.t.Helper()
	token, expires, err := h.signer.Sign(c)
	require.NoError(h.t, err)
	ctx := authn.WithToken(h.t.Context(), token, expires)
	return metadata.AppendToOutgoingContext(ctx, headers...)
}

// kind returns the kind, code and text of an error's fault.
func kind(t *testing.T, err error) (fault.Kind, string, string) {
	t.Helper()
	require.Error(t, err)
	f := fault.From(err)
	return f.Kind, f.Code, f.Text()
}

// refused asserts the kind of an error and that its text contains the given words.
func refused(t *testing.T, err error, want fault.Kind, words string) {
	t.Helper()
	k, _, text := kind(t, err)
	require.Equal(t, want, k, text)
	require.Contains(t, text, words)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// eventually waits until fn returns true.
func eventually(t *testing.T, fn func() bool, what string) {
	t.Helper()
	require.Eventually(t, fn, soon, 10*time.Millisecond, what)
}
