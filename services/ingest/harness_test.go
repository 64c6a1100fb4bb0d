package ingest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// jobs is a fake of the jobs service.
type jobs struct {
	jobspeerv1.RunPeerServiceClient

	mu        sync.Mutex
	grants    map[string]*jobspeerv1.IngestGrant // by hash of the token
	owners    map[string]*jobspeerv1.RunOwner    // by id of the run and by id of the job
	resolved  int
	reported  []string
	lifecycle error
	away      error
	control   control
	inUse     map[string]string // the runs of the artifacts in use, by id of the artifact
	searched  int               // calls of FindArtifactsInUse
}

func (j *jobs) ResolveIngestToken(_ context.Context, in *jobspeerv1.ResolveIngestTokenRequest, _ ...grpc.CallOption) (*jobspeerv1.IngestGrant, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resolved++
	if j.away != nil {
		return nil, j.away
	}
	g := j.grants[string(in.GetTokenHash())]
	if g == nil {
		return nil, fault.New(fault.Unauthenticated, "ingest_token", "the ingest token is unknown, revoked or expired")
	}
	return proto.CloneOf(g), nil
}

func (j *jobs) ReportLifecycle(_ context.Context, in *jobspeerv1.ReportLifecycleRequest, _ ...grpc.CallOption) (*jobspeerv1.ReportLifecycleResponse, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lifecycle != nil {
		return nil, j.lifecycle
	}
	j.reported = append(j.reported, in.GetEvent()+":"+in.GetMessage())
	return &jobspeerv1.ReportLifecycleResponse{Applied: true}, nil
}

func (j *jobs) GetRunOwner(_ context.Context, in *jobspeerv1.GetRunOwnerRequest, _ ...grpc.CallOption) (*jobspeerv1.RunOwner, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o := j.owners[in.GetId()]; o != nil {
		return proto.CloneOf(o), nil
	}
	return nil, fault.Absentf("run", in.GetId())
}

// harness is a fresh database, with the fakes that all replicas in a test share.
type harness struct {
	t     testing.TB
	db    *pgtest.DB
	jobs  *jobs
	blobs *objectstore.FileStore
	clock clock.Clock
	ids   *id.Source
	// publicURL is the base of signed blob URLs.
	publicURL atomic.Value
	meter     metric.MeterProvider
}

// replica is one ingest service with its workers running.
type replica struct {
	h           *harness
	service     *ingest.Service
	handler     http.Handler
	key         authn.SigningKey // signs callers
	public      ingestv1.RunDataServiceClient
	evaluations ingestv1.AgentEvaluationServiceClient
	peer        ingestpeerv1.RunDataPeerServiceClient // called as the jobs service
	registry    ingestpeerv1.RunDataPeerServiceClient // called as the registry
	stop        func()
}

func open(tb testing.TB) *harness {
	tb.Helper()
	files, err := ingest.Migrations()
	require.NoError(tb, err)
	clk := clock.Real()
	h := &harness{
		t: tb, db: pgtest.New(tb, pgtest.Schema{Name: ingest.Name, Migrations: files}), clock: clk,
		ids:  id.NewSource(clk, rand.Reader),
		jobs: &jobs{grants: map[string]*jobspeerv1.IngestGrant{}, owners: map[string]*jobspeerv1.RunOwner{}},
	}
	h.publicURL.Store("http://127.0.0.1")
	h.blobs, err = objectstore.OpenFiles(objectstore.FileConfig{
		Root: tb.TempDir(), Limit: 1 << 20, PublicURL: func() string { return h.publicURL.Load().(string) }, Clock: clk, IDs: h.ids, Log: quiet(),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, h.blobs.Close()) })
	return h
}

func quiet() *slog.Logger {
	return slog.New(slog.DiscardHandler)
}

// replica starts an ingest service, which stops at the end of the test. It does not start the workers that without names.
func (h *harness) replica(cfg ingest.Config, without ...string) *replica {
	h.t.Helper()
	svc, err := ingest.New(h.t.Context(), cfg, ingest.Deps{
		Pool: h.db.Pool(ingest.Name), Runs: h.jobs, Blobs: h.blobs, Clock: h.clock, IDs: h.ids, Log: quiet(),
		Meter: h.meter,
	})
	require.NoError(h.t, err)
	require.NoError(h.t, svc.Ready(h.t.Context()))
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(h.t, err)
	bus := rpc.Memory(rpc.ClientOptions{Clock: h.clock})
	server := rpc.NewServer(rpc.ServerOptions{
		Service: ingest.Name, Log: quiet(), Clock: h.clock, Classify: pg.Classify,
		NewRequestID: func() string { return h.ids.New(id.Request) },
		Verifier:     authn.NewVerifier(h.clock, authn.StaticKeys(h.clock, key.Public())),
	})
	svc.Register(server)
	listener, err := bus.As(ingest.Name).Listen(ingest.Name)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	workers := slices.DeleteFunc(svc.Workers(), func(w process.Worker) bool { return slices.Contains(without, w.Name) })
	workers = append(workers, process.Worker{Name: "server", Run: func(ctx context.Context) error { return server.Serve(ctx, listener) }})
	done := make(chan error, 1)
	go func() { done <- process.Group(ctx, workers...) }()
	gateway, err := bus.As("gateway").Dial(ingest.Name)
	require.NoError(h.t, err)
	jobs, err := bus.As("jobs").Dial(ingest.Name)
	require.NoError(h.t, err)
	registry, err := bus.As("registry").Dial(ingest.Name)
	require.NoError(h.t, err)
	stop := sync.OnceFunc(func() {
		cancel()
		err := <-done
		require.NoError(h.t, err)
		_, _, _ = gateway.Close(), jobs.Close(), registry.Close()
	})
	h.t.Cleanup(stop)
	r := &replica{h: h, service: svc, handler: svc.Handler(), key: key, stop: stop}
	r.public = ingestv1.NewRunDataServiceClient(signed{gateway, h, key})
	r.evaluations = ingestv1.NewAgentEvaluationServiceClient(signed{gateway, h, key})
	r.peer, r.registry = ingestpeerv1.NewRunDataPeerServiceClient(jobs), ingestpeerv1.NewRunDataPeerServiceClient(registry)
	return r
}

// signed is a connection that signs each call as the user in the context, which the function as sets. Without a user in
// the context, it signs as usr_owner.
type signed struct {
	grpc.ClientConnInterface
	h   *harness
	key authn.SigningKey
}

type callerKey struct{}

// as returns a context in which calls are signed as the given user.
func as(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, callerKey{}, user)
}

func (s signed) sign(ctx context.Context) context.Context {
	user, _ := ctx.Value(callerKey{}).(string)
	if user == "" {
		user = "usr_owner"
	}
	signer := authn.NewSigner(s.h.clock, func() string { return s.h.ids.New(id.TokenRow) }, func() authn.SigningKey { return s.key })
	token, expires, err := signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: user, Username: user, Role: authn.RoleOperator})
	require.NoError(s.h.t, err)
	return authn.WithToken(ctx, token, expires)
}

func (s signed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return s.ClientConnInterface.Invoke(s.sign(ctx), method, args, reply, opts...)
}

func (s signed) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.ClientConnInterface.NewStream(s.sign(ctx), desc, method, opts...)
}

// training is a run with the ingest token of its current attempt.
type training struct {
	r     *replica
	run   string
	job   string
	token string
	grant *jobspeerv1.IngestGrant
}

// train creates a run and mints the token of its first attempt.
func (r *replica) train() *training {
	r.h.t.Helper()
	t := &training{r: r, run: r.h.ids.New(id.Run), job: r.h.ids.New(id.Job)}
	owner := &jobspeerv1.RunOwner{
		RunId: t.run, JobId: t.job, OwnerId: "usr_owner", ProjectId: "prj_1", Project: "default", Visibility: "private",
	}
	r.h.jobs.mu.Lock()
	r.h.jobs.owners[t.run], r.h.jobs.owners[t.job] = owner, owner
	r.h.jobs.mu.Unlock()
	t.attempt(1)
	return t
}

// attempt mints a token for attempt n of the run. Later requests of t use this token.
func (t *training) attempt(n int32) {
	h := t.r.h
	token, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(h.t, err)
	h.jobs.mu.Lock()
	defer h.jobs.mu.Unlock()
	if t.grant != nil {
		t.grant.Current = false
	}
	t.token = token.Reveal()
	t.grant = &jobspeerv1.IngestGrant{
		RunId: t.run, JobId: t.job, Attempt: n, Current: true, ExpiresAt: timestamppb.New(h.clock.Now().Add(time.Hour)),
		Owner: h.jobs.owners[t.run],
	}
	h.jobs.grants[string(secret.Hash(t.token))] = t.grant
}

// again mints another token for the same attempt, whose grant is not cached yet.
func (t *training) again() {
	token, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t.r.h.t, err)
	t.r.h.jobs.mu.Lock()
	defer t.r.h.jobs.mu.Unlock()
	t.token = token.Reveal()
	t.r.h.jobs.grants[string(secret.Hash(t.token))] = t.grant
}

// response is a recorded HTTP response.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (a response) json(tb testing.TB) map[string]any {
	tb.Helper()
	var m map[string]any
	require.NoError(tb, json.Unmarshal(a.body, &m), string(a.body))
	return m
}

// call sends a request with the run's token.
func (t *training) call(method, path, key, body string) response {
	return t.r.serve(t.request(method, path, key, body))
}

func (t *training) request(method, path, key, body string) *http.Request {
	req := httptest.NewRequest(method, "/api/ingest/"+path, bytes.NewReader([]byte(body)))
	req.Header.Set("Authorization", "Bearer "+t.token)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return req
}

func (r *replica) serve(req *http.Request) response {
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	return response{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// post sends a body with the run's id and the fields in rest, and requires status 200. It returns the decoded response.
func (t *training) post(path, key, rest string) map[string]any {
	t.r.h.t.Helper()
	a := t.call(http.MethodPost, path, key, t.body(rest))
	require.Equal(t.r.h.t, http.StatusOK, a.status, string(a.body))
	return a.json(t.r.h.t)
}

// body returns a JSON object with the run's id and the fields in rest.
func (t *training) body(rest string) string { return `{"run_id":"` + t.run + `",` + rest + `}` }

var _ blob.Store = (*objectstore.FileStore)(nil)

// watermark returns the run's watermarks by stream and writer.
func (t *training) watermark() map[string]map[string]int64 {
	t.r.h.t.Helper()
	a := t.call(http.MethodGet, "watermark?run_id="+t.run, "", "")
	require.Equal(t.r.h.t, http.StatusOK, a.status, string(a.body))
	var m map[string]map[string]int64
	require.NoError(t.r.h.t, json.Unmarshal(a.body, &m))
	return m
}

// lines returns the run's log lines. Each begins with the number of its attempt.
func (t *training) lines() []string {
	t.r.h.t.Helper()
	limit := int32(500)
	out, err := t.r.public.ListLogs(t.r.h.t.Context(), &ingestv1.ListLogsRequest{Id: t.run, Limit: &limit})
	require.NoError(t.r.h.t, err)
	var lines []string
	for i, l := range out.GetLines() {
		require.EqualValues(t.r.h.t, i+1, l.GetSeq())
		lines = append(lines, strconv.Itoa(int(l.GetAttempt()))+" "+l.GetText())
	}
	return lines
}
