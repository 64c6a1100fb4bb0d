package inference_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/test/fronttest"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// limit is the maximum time of every wait in these tests. A test that passes takes less.
const limit = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(fronttest.Main(m)) }

// harness is the service with a fake registry, its own database and a real HTTP server.
type harness struct {
	t        *testing.T
	cfg      inference.Config
	db       *pgtest.DB
	pool     *pgxpool.Pool
	registry *registry
	sessions *sessions
	bus      *rpc.Bus
	svc      *inference.Service
	obs      *obs.Obs
	server   *httptest.Server
	tls      func(node string) *tls.Config // for engines on other hosts
	stop     func()                        // stops the server and the workers, and waits for them
}

func defaults(t *testing.T) inference.Config {
	t.Helper()
	return inference.Config{
		Connect: limit, FirstByte: limit, EngineIdle: limit, Idle: limit, MaxBodyMB: 2, Spool: t.TempDir(), SocketIdle: limit, SocketMessageMB: 1,
		EngineSilence: limit, Fast: fronttest.Fast(),
	}
}

// open starts the service. The functions in change may modify its settings first.
func open(t *testing.T, change ...func(*inference.Config)) *harness {
	t.Helper()
	return openWith(t, nil, change...)
}

// openWith is like open, with a TLS configuration for engines on other hosts.
func openWith(t *testing.T, own func(node string) *tls.Config, change ...func(*inference.Config)) *harness {
	t.Helper()
	files, err := inference.Migrations()
	require.NoError(t, err)
	r := &harness{t: t, cfg: defaults(t), registry: newRegistry(), sessions: &sessions{}, tls: own}
	for _, f := range change {
		f(&r.cfg)
	}
	r.db = pgtest.New(t, pgtest.Schema{Name: inference.Name, Migrations: files})
	r.pool = r.db.Pool(inference.Name)
	clk := clock.Real()
	r.bus = rpc.Memory(rpc.ClientOptions{Clock: clk})
	r.serve("registry", func(s *rpc.Server) {
		registrypeerv1.RegisterSnapshotServiceServer(s, r.registry)
		registrypeerv1.RegisterPlaygroundPeerServiceServer(s, r.sessions)
	}, r.sessions.key(t).Public())
	r.start(r.pool)
	return r
}

// serve runs a gRPC server on the in-process network until the test ends.
func (r *harness) serve(name string, register func(*rpc.Server), keys ...authn.PublicKey) {
	r.t.Helper()
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	server := rpc.NewServer(rpc.ServerOptions{
		Service: name, Log: slog.New(slog.DiscardHandler), Clock: clk, Classify: pg.Classify,
		NewRequestID: func() string { return ids.New(id.Request) },
		Verifier:     authn.NewVerifier(clk, authn.StaticKeys(clk, keys...)),
	})
	register(server)
	listener, err := r.bus.As(name).Listen(name)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	r.t.Cleanup(func() { cancel(); require.NoError(r.t, <-done) })
}

// start creates the service with a database pool and runs its workers.
func (r *harness) start(pool *pgxpool.Pool) {
	r.t.Helper()
	clk := clock.Real()
	conn, err := r.bus.As(inference.Name).Dial("registry")
	require.NoError(r.t, err)
	r.obs, err = obs.Setup(r.t.Context(), obs.Config{Service: inference.Name}, io.Discard)
	require.NoError(r.t, err)
	r.svc, err = inference.New(r.t.Context(), r.cfg, inference.Deps{
		Pool: pool, Snapshots: registrypeerv1.NewSnapshotServiceClient(conn), Sessions: registrypeerv1.NewPlaygroundPeerServiceClient(conn), Clock: clk, Mono: clock.Monotonic(),
		IDs: id.NewSource(clk, rand.Reader), Log: slog.New(slog.DiscardHandler), EngineTLS: r.tls,
		Meter: r.obs.Meter, Registry: r.obs.Registry,
	})
	require.NoError(r.t, err)
	r.server = fronttest.Serve(r.t, r.svc.Handler())
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	workers := r.svc.Workers()
	go func() { done <- process.Group(ctx, workers...) }()
	server := r.server
	r.stop = sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		require.NoError(r.t, <-done)
		_ = conn.Close()
	})
	r.t.Cleanup(r.stop)
}

// ready pushes deployments and waits until the service has applied them and has a lease.
func (r *harness) ready(deployments ...*registrypeerv1.ServedDeployment) {
	r.t.Helper()
	r.registry.await(r.t, r.registry.push(deployments...))
	require.Eventually(r.t, func() bool {
		resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", "", "")
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode != http.StatusServiceUnavailable
	}, limit, 5*time.Millisecond, "the service must get a lease")
}

var (
	deploymentA = dep("a")
	deploymentB = dep("b")
)

// dep returns a deployment id made of the given letter.
func dep(letter string) string { return "dep_0" + strings.Repeat(letter, 25) }

const chat = "/v1/chat/completions"

// reply is a response whose body the test must close.
type reply struct{ *http.Response }

// do sends a request with a bearer token, or without an Authorization header if the token is empty.
func (r *harness) do(method, path, bearer, body string) reply {
	r.t.Helper()
	return r.send(r.request(method, path, bearer, body))
}

func (r *harness) request(method, path, bearer, body string) *http.Request {
	r.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, in)
	require.NoError(r.t, err)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func (r *harness) send(req *http.Request) reply {
	r.t.Helper()
	return send(r.t, r.server.Client(), req)
}

func send(t *testing.T, client *http.Client, req *http.Request) reply {
	t.Helper()
	resp, err := client.Do(req) //nolint:bodyclose // the test closes it
	require.NoError(t, err)
	return reply{resp}
}

// text returns a body. It requires that the body is complete.
func text(t *testing.T, resp reply) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// row holds the fields of a recorded call that the tests check.
type row struct {
	RequestID, Outcome, Method, Path, Token, Usage string
	Status                                         int32
	Stream                                         bool
	RequestedModel, ResponseModel, Finish          *string
	Prompt, Completion                             *int32
	TTFT                                           *float64
	In, Out                                        int64
}

// rows waits until the wanted number of calls is recorded and returns the calls, oldest first.
func (r *harness) rows(want int) []row {
	r.t.Helper()
	var out []row
	require.Eventually(r.t, func() bool {
		out = r.now()
		return len(out) >= want
	}, limit, 10*time.Millisecond, "%d calls must be recorded", want)
	require.Len(r.t, out, want)
	return out
}

// now returns the calls that have been recorded so far, oldest first.
func (r *harness) now() []row {
	var out []row
	rows, err := r.pool.Query(context.WithoutCancel(r.t.Context()), `SELECT request_id, outcome, method, path, token_name, usage_source,
		status, stream, requested_model, response_model, finish_reason, prompt_tokens, completion_tokens, ttft_ms,
		request_bytes, response_bytes FROM call ORDER BY at, request_id`)
	if err != nil {
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var c row
		err := rows.Scan(&c.RequestID, &c.Outcome, &c.Method, &c.Path, &c.Token, &c.Usage, &c.Status, &c.Stream, &c.RequestedModel,
			&c.ResponseModel, &c.Finish, &c.Prompt, &c.Completion, &c.TTFT, &c.In, &c.Out)
		if err != nil {
			return nil
		}
		out = append(out, c)
	}
	return out
}
