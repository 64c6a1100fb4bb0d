package proxy

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
	"github.com/signalbox-dev/signalbox/test/fronttest"
)

// patience is the maximum time of every wait in these tests. A test that passes takes less.
const patience = time.Minute

// registry is a stream that grants every renewal.
type registry struct {
	grpc.ClientStream
	ctx context.Context //nolint:containedctx // the context of the stream.
	out chan *registrypeerv1.WatchResponse
}

func (r *registry) Send(in *registrypeerv1.WatchRequest) error {
	if in.GetRenewal() == 0 {
		return nil
	}
	select {
	case r.out <- &registrypeerv1.WatchResponse{Epoch: 1, Renewed: in.GetRenewal(), Lease: durationpb.New(time.Hour)}:
	case <-r.ctx.Done():
	}
	return nil
}

func (r *registry) Recv() (*registrypeerv1.WatchResponse, error) {
	select {
	case m := <-r.out:
		return m, nil
	case <-r.ctx.Done():
		return nil, io.EOF
	}
}

// snapshots is a fake registry that sends one snapshot, which contains the listed deployments.
type snapshots []*registrypeerv1.ServedDeployment

func (s snapshots) Watch(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[registrypeerv1.WatchRequest, registrypeerv1.WatchResponse], error) {
	r := &registry{ctx: ctx, out: make(chan *registrypeerv1.WatchResponse, 16)}
	r.out <- &registrypeerv1.WatchResponse{Epoch: 1, Snapshot: &registrypeerv1.Snapshot{Deployments: s}}
	return r, nil
}

func (snapshots) ReplaceEngine(context.Context, *registrypeerv1.ReplaceEngineRequest, ...grpc.CallOption) (*registrypeerv1.ReplaceEngineResponse, error) {
	return nil, fault.New(fault.Unconfigured, "", "not served")
}

func (snapshots) GetDeploymentOwner(context.Context, *registrypeerv1.GetDeploymentOwnerRequest, ...grpc.CallOption) (*registrypeerv1.DeploymentOwner, error) {
	return nil, io.EOF
}

func (snapshots) Release(context.Context, *registrypeerv1.ReleaseRequest, ...grpc.CallOption) (*registrypeerv1.ReleaseResponse, error) {
	return &registrypeerv1.ReleaseResponse{}, nil
}

// fakeRecorder collects recorded calls and refusals.
type fakeRecorder struct {
	*traffic.CallMetrics

	mu       sync.Mutex
	calls    []*traffic.Call
	refusals map[string]int
}

func (l *fakeRecorder) Record(_ context.Context, c *traffic.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

func (l *fakeRecorder) Rejected(_ context.Context, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals[reason]++
}

// recorded waits until n calls have been recorded and returns them.
func (l *fakeRecorder) recorded(t *testing.T, n int) []*traffic.Call {
	t.Helper()
	var out []*traffic.Call
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		out = append([]*traffic.Call(nil), l.calls...)
		return len(out) >= n
	}, patience, time.Millisecond)
	require.Len(t, out, n)
	return out
}

// harness is a proxy with a valid lease and a fake recorder.
type harness struct {
	t        testing.TB
	proxy    *Proxy
	recorder *fakeRecorder
	mono     *atomic.Int64
	part     func() // stops the watcher
}

const maxBody = 2 << 20

func newHarness(t testing.TB, deployments ...*registrypeerv1.ServedDeployment) *harness {
	t.Helper()
	clk, mono := clock.Real(), &atomic.Int64{}
	measured, err := traffic.NewCallMetrics(t.Context(), nil, nil, func(string) bool { return true })
	require.NoError(t, err)
	l := &fakeRecorder{CallMetrics: measured, refusals: map[string]int{}}
	r := &harness{t: t, recorder: l, mono: mono}
	held := routing.New(func() time.Duration { return time.Duration(mono.Load()) })
	client := &engineclient.Client{Timeouts: engineclient.Timeouts{Connect: patience, Send: patience, FirstByte: patience, Idle: patience}, Clock: clk}
	r.proxy = &Proxy{
		Lease: held, Engines: client, Recorder: l, Tally: l, Clock: clk, IDs: id.NewSource(clk, rand.Reader),
		Log: slog.New(slog.DiscardHandler), MaxBody: maxBody, Idle: patience,
		Sockets: Sockets{Idle: patience, MaxMessage: 1 << 20},
	}
	w := &routing.Watcher{
		Lease: held, Snapshots: snapshots(deployments), Name: func() string { return "irp_1" },
		Roll: &routing.ReplicaFile{Path: filepath.Join(t.TempDir(), "replicas")}, Clock: clk, Log: r.proxy.Log,
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.part = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(func() { r.part(); client.CloseIdle() })
	require.Eventually(t, held.Valid, patience, time.Millisecond)
	return r
}

// expire stops the watcher and lets the lease expire.
func (r *harness) expire() {
	r.part()
	r.mono.Store(int64(2 * time.Hour))
}

// handle sends a request directly to the handler.
func (r *harness) handle(req *http.Request) *http.Response {
	w := httptest.NewRecorder()
	r.proxy.ServeHTTP(w, req)
	return w.Result()
}

func TestMain(m *testing.M) { os.Exit(fronttest.Main(m)) }

// serve starts an HTTP server with the handler.
func (r *harness) serve() *httptest.Server {
	s := fronttest.Serve(r.t, r.proxy)
	r.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// idle reports whether no call is open on any replica.
func (r *harness) idle() bool {
	r.proxy.busy.mu.Lock()
	defer r.proxy.busy.mu.Unlock()
	return len(r.proxy.busy.open) == 0
}

// token is a deployment token and its entry in the snapshot.
type token struct {
	text   string
	served *registrypeerv1.ServedToken
}

func mint(t testing.TB, kind string) token {
	t.Helper()
	minted, err := secret.Mint(rand.Reader, kind)
	require.NoError(t, err)
	text := minted.Reveal()
	return token{text, &registrypeerv1.ServedToken{Id: "tok_" + text[4:10], Name: "n", Hash: secret.Hash(text)}}
}

// dep returns a deployment id made of the given letter.
func dep(letter string) string { return "dep_0" + strings.Repeat(letter, 25) }

// served returns a ready deployment with replicas r0, r1, ... at the given addresses.
func served(letter string, tok token, addresses ...string) *registrypeerv1.ServedDeployment {
	d := &registrypeerv1.ServedDeployment{
		Id: dep(letter), Tokens: []*registrypeerv1.ServedToken{tok.served},
		Promoted: &registrypeerv1.ServedRevision{Id: "rev_1", Number: 3, Ready: true},
	}
	for i, a := range addresses {
		d.Promoted.Replicas = append(d.Promoted.Replicas, &registrypeerv1.ServedReplica{Id: "r" + string(rune('0'+i)), Address: a, ApiKey: "engine-key"})
	}
	return d
}

// engine starts a TCP server that calls the function play for each connection.
func engine(t testing.TB, play func(c net.Conn, in *bufio.Reader)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer func() { _ = c.Close() }(); play(c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// replies returns a script that responds to every request with the given bytes.
func replies(bytes string) func(c net.Conn, in *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := io.WriteString(c, bytes); err != nil {
				return
			}
		}
	}
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}
