package inference_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference"
)

// limit bounds every wait of these tests; none of them takes it when all is well.
const limit = 30 * time.Second

// registry is a registry with one snapshot, served over the in-process network.
type registry struct {
	registrypeerv1.UnimplementedSnapshotServiceServer

	mu      sync.Mutex
	epoch   int64
	current *registrypeerv1.Snapshot
	lease   time.Duration
	down    bool
	acked   int64
	changed chan struct{}
	opened  int
}

func newRegistry() *registry { return &registry{lease: 10 * time.Minute, changed: make(chan struct{})} }

// change alters the registry under its lock and tells every stream.
func (r *registry) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// push makes a snapshot the current one and answers its epoch.
func (r *registry) push(deployments ...*registrypeerv1.ServedDeployment) int64 {
	var epoch int64
	r.change(func() {
		r.epoch++
		epoch = r.epoch
		r.current = &registrypeerv1.Snapshot{Deployments: deployments}
	})
	return epoch
}

// await waits until the replica has acknowledged the epoch.
func (r *registry) await(t *testing.T, epoch int64) {
	t.Helper()
	r.awaitThat(t, func() bool { return r.acked >= epoch })
}

// awaitThat waits for a condition that is read under the lock.
func (r *registry) awaitThat(t *testing.T, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		r.mu.Lock()
		ok, changed := holds(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "the replica did not come so far")
		}
	}
}

func (r *registry) Watch(s registrypeerv1.SnapshotService_WatchServer) error {
	requests := make(chan *registrypeerv1.WatchRequest)
	go func() {
		defer close(requests)
		for {
			in, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- in:
			case <-s.Context().Done():
				return
			}
		}
	}()
	r.change(func() { r.opened++ })
	sent := int64(0)
	for {
		r.mu.Lock()
		epoch, current, lease, down, changed := r.epoch, r.current, r.lease, r.down, r.changed
		r.mu.Unlock()
		if down {
			return status.Error(codes.Unavailable, "the registry is away")
		}
		if epoch > sent {
			if err := s.Send(&registrypeerv1.WatchResponse{Epoch: epoch, Snapshot: current}); err != nil {
				return err
			}
			sent = epoch
			continue
		}
		select {
		case in, ok := <-requests:
			if !ok {
				return nil
			}
			r.change(func() { r.acked = in.GetAckedEpoch() })
			if in.GetRenewal() == 0 {
				continue
			}
			err := s.Send(&registrypeerv1.WatchResponse{Epoch: sent, Renewed: in.GetRenewal(), Lease: durationpb.New(lease)})
			if err != nil {
				return err
			}
		case <-changed:
		}
	}
}

// served makes a deployment with a ready revision on the engines.
func served(deployment string, tokens []*registrypeerv1.ServedToken, engines ...*engine) *registrypeerv1.ServedDeployment {
	d := &registrypeerv1.ServedDeployment{
		Id: deployment, Tokens: tokens, OwnerId: "usr_1", ProjectId: "prj_1", Visibility: "all",
		Promoted: &registrypeerv1.ServedRevision{Id: "rev_1", Number: 1, Ready: true},
	}
	for _, e := range engines {
		d.Promoted.Replicas = append(d.Promoted.Replicas, &registrypeerv1.ServedReplica{
			Id: "rep_" + e.addr, Address: "http://" + e.addr, ApiKey: engineKey,
		})
	}
	return d
}

const engineKey = "the-engines-own-key"

// token is a deployment token and how the registry tells of it.
type token struct {
	text   string
	served *registrypeerv1.ServedToken
}

func newToken(t *testing.T, name string) token {
	t.Helper()
	minted, err := secret.Mint(rand.Reader, secret.KindDeployment)
	require.NoError(t, err)
	text := minted.Reveal()
	return token{text: text, served: &registrypeerv1.ServedToken{Id: "tok_" + name, Name: name, Hash: secret.Hash(text)}}
}

func list(tokens ...token) []*registrypeerv1.ServedToken {
	out := make([]*registrypeerv1.ServedToken, 0, len(tokens))
	for _, t := range tokens {
		out = append(out, t.served)
	}
	return out
}

// engine is a raw TCP server; each connection is the script's.
type engine struct {
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns int
	open  map[net.Conn]bool
	heads []string
}

// script answers what comes on one connection; the connection is closed when it returns.
type script func(e *engine, c net.Conn, in *bufio.Reader)

func newEngine(t *testing.T, play script) *engine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &engine{addr: l.Addr().String(), listener: l, open: map[net.Conn]bool{}}
	e.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns++
			e.open[c] = true
			e.mu.Unlock()
			e.wg.Go(func() {
				defer func() { _ = c.Close() }()
				play(e, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *engine) stop() {
	_ = e.listener.Close()
	e.mu.Lock()
	for c := range e.open {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// connections is how many were made so far.
func (e *engine) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conns
}

// seen are the heads of the requests that came.
func (e *engine) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.heads...)
}

// read takes one whole request; ok is false at the end of the connection.
func (e *engine) read(in *bufio.Reader) (head string, body []byte, ok bool) {
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", nil, false
		}
		b.WriteString(line)
		if line == "\r\n" {
			break
		}
	}
	head = b.String()
	e.mu.Lock()
	e.heads = append(e.heads, head)
	e.mu.Unlock()
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), in)))
	if err != nil {
		return head, nil, false
	}
	body, err = io.ReadAll(r.Body)
	return head, body, err == nil
}

// always answers every request with the same bytes.
func always(answer string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			if _, _, ok := e.read(in); !ok {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// okJSON is an answer that says all that the record takes.
const okJSON = `{"model":"tiny","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`

func answer(status, contentType, body string, headers ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	if contentType != "" {
		b.WriteString("Content-Type: " + contentType + "\r\n")
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	return b.String()
}

// rig is inference with its registry, on a database of its own, behind a real HTTP server.
type rig struct {
	t        *testing.T
	cfg      inference.Config
	db       *pgtest.DB
	pool     *pgxpool.Pool
	registry *registry
	bus      *rpc.Bus
	svc      *inference.Service
	server   *httptest.Server
	tls      func(node string) *tls.Config // of engines of other hosts
	stop     func()                        // the workers, and waits for them
}

func defaults(t *testing.T) inference.Config {
	t.Helper()
	return inference.Config{
		Connect: limit, FirstByte: limit, Idle: limit, MaxBodyMB: 2, Spool: t.TempDir(),
	}
}

// open starts the service; change may alter its settings first.
func open(t *testing.T, change ...func(*inference.Config)) *rig {
	t.Helper()
	return openWith(t, nil, change...)
}

// openWith is open for a service with a certificate.
func openWith(t *testing.T, own func(node string) *tls.Config, change ...func(*inference.Config)) *rig {
	t.Helper()
	files, err := inference.Migrations()
	require.NoError(t, err)
	r := &rig{t: t, cfg: defaults(t), registry: newRegistry(), tls: own}
	for _, f := range change {
		f(&r.cfg)
	}
	r.db = pgtest.New(t, pgtest.Schema{Name: inference.Name, Migrations: files})
	r.pool = r.db.Pool(inference.Name)
	clk := clock.Real()
	r.bus = rpc.Memory(rpc.ClientOptions{Clock: clk})
	r.serve("registry", func(s *rpc.Server) { registrypeerv1.RegisterSnapshotServiceServer(s, r.registry) })
	r.start(r.pool)
	return r
}

// serve runs a gRPC server on the bus until the test ends.
func (r *rig) serve(name string, register func(*rpc.Server), keys ...authn.PublicKey) {
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

// start makes the service over a pool and runs its workers.
func (r *rig) start(pool *pgxpool.Pool) {
	r.t.Helper()
	clk := clock.Real()
	conn, err := r.bus.As(inference.Name).Dial("registry")
	require.NoError(r.t, err)
	r.svc, err = inference.New(r.t.Context(), r.cfg, inference.Deps{
		Pool: pool, Snapshots: registrypeerv1.NewSnapshotServiceClient(conn), Clock: clk, Mono: clock.Monotonic(),
		IDs: id.NewSource(clk, rand.Reader), Log: slog.New(slog.DiscardHandler), EngineTLS: r.tls,
	})
	require.NoError(r.t, err)
	r.server = httptest.NewServer(r.svc.Handler())
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	workers := r.svc.Workers()
	go func() { done <- run.Group(ctx, workers...) }()
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

// ready pushes deployments and waits until they are in force under a lease.
func (r *rig) ready(deployments ...*registrypeerv1.ServedDeployment) {
	r.t.Helper()
	r.registry.await(r.t, r.registry.push(deployments...))
	require.Eventually(r.t, func() bool {
		resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", "", "")
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode != http.StatusServiceUnavailable
	}, limit, 5*time.Millisecond, "a lease")
}

var (
	deploymentA = dep("a")
	deploymentB = dep("b")
)

// dep is the id of a deployment.
func dep(letter string) string { return "dep_0" + strings.Repeat(letter, 25) }

const chat = "/v1/chat/completions"

// reply is an answer whose body is the test's to close.
type reply struct{ *http.Response }

// do sends a request with a bearer; an empty one is left out.
func (r *rig) do(method, path, bearer, body string) reply {
	r.t.Helper()
	return r.send(r.request(method, path, bearer, body))
}

func (r *rig) request(method, path, bearer, body string) *http.Request {
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

func (r *rig) send(req *http.Request) reply {
	r.t.Helper()
	resp, err := r.server.Client().Do(req) //nolint:bodyclose // the test closes it
	require.NoError(r.t, err)
	return reply{resp}
}

// text reads a body that ends well.
func text(t *testing.T, resp reply) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// row is what the tests look at of a recorded call.
type row struct {
	RequestID, Outcome, Method, Path, Token, Usage string
	Status                                         int32
	Stream                                         bool
	Asked, Answered, Finish                        *string
	Prompt, Completion                             *int32
	TTFT                                           *float64
	In, Out                                        int64
}

// rows waits for so many recorded calls and answers them, oldest first.
func (r *rig) rows(want int) []row {
	r.t.Helper()
	var out []row
	require.Eventually(r.t, func() bool {
		out = r.now()
		return len(out) >= want
	}, limit, 10*time.Millisecond, "%d calls in the record", want)
	require.Len(r.t, out, want)
	return out
}

func (r *rig) now() []row {
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
		err := rows.Scan(&c.RequestID, &c.Outcome, &c.Method, &c.Path, &c.Token, &c.Usage, &c.Status, &c.Stream, &c.Asked,
			&c.Answered, &c.Finish, &c.Prompt, &c.Completion, &c.TTFT, &c.In, &c.Out)
		if err != nil {
			return nil
		}
		out = append(out, c)
	}
	return out
}
