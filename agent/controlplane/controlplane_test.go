package controlplane

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// guard is how long a test waits for an event before it fails. In tests that pass, the waits are much shorter.
const guard = time.Minute

const month = 30 * 24 * time.Hour

// fakeControlPlane is a control plane's agent listener on a real port with real certificates.
type fakeControlPlane struct {
	jobsv1.UnimplementedAgentServiceServer

	*testing.T
	clock   *clock.Fake
	address string
	// identity holds the listener's certificate and the CA that the listener trusts.
	identity atomic.Pointer[pki.Identity]

	mu    sync.Mutex
	ca    *pki.CA
	life  time.Duration
	renew func(*jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error)

	sessions chan *stream
	renewals chan error

	specs   map[string]*jobsv1.AttemptSpec // by work id, for FetchWork
	fetches []string
}

// stream is the control plane's end of one session.
type stream struct {
	jobsv1.AgentService_ConnectServer
	hello *jobsv1.AgentHello
	// heard receives the agent's observations; it is closed when the stream ends.
	heard chan *jobsv1.ObservedWorks
	beats chan *jobsv1.Heartbeat
	end   chan error
}

// Current returns the current identity. rotate replaces it while the control plane is serving.
func (p *fakeControlPlane) Current() *pki.Identity { return p.identity.Load() }

func newFakeControlPlane(t *testing.T) *fakeControlPlane {
	t.Helper()
	p := &fakeControlPlane{
		T: t, clock: clock.NewFake(clock.Real().Now()), life: month,
		sessions: make(chan *stream, 16), renewals: make(chan error, 64),
	}
	p.rotate()
	wire, err := rpc.TCP(rpc.TCPConfig{Identity: p, ListenAgents: "127.0.0.1:0", Client: rpc.ClientOptions{Clock: clock.Real()}})
	require.NoError(t, err)
	listener, err := wire.ListenAgents("jobs")
	require.NoError(t, err)
	p.address = listener.Addr().String()
	server := rpc.NewServer(rpc.ServerOptions{
		Service: "jobs", Log: slog.New(slog.DiscardHandler), Clock: clock.Real(), NewRequestID: func() string { return "req" },
		StopTimeout: time.Nanosecond,
	})
	jobsv1.RegisterAgentServiceServer(server, p)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return p
}

// rotate gives the control plane a new CA. From then on the control plane rejects certificates of the old CA.
func (p *fakeControlPlane) rotate() {
	p.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), 20*month)
	require.NoError(p, err)
	pair, err := ca.IssueService("jobs", clock.Real().Now(), month)
	require.NoError(p, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, ca.CertPEM())
	require.NoError(p, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ca = ca
	p.identity.Store(identity)
}

func (p *fakeControlPlane) sign(request, id string) (cert, ca string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signed, err := p.ca.SignNode([]byte(request), id, clock.Real().Now(), p.life)
	return string(signed), string(p.ca.CertPEM()), err
}

// Join implements Joiner.
func (p *fakeControlPlane) Join(_ context.Context, r *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	cert, ca, err := p.sign(r.GetCertificateRequest(), "nod_1")
	return &jobsv1.JoinFleetResponse{NodeId: "nod_1", Certificate: cert, CaCertificate: ca, AgentAddress: p.address, HeartbeatS: 3600}, err
}

// RenewCertificate calls p.renew if the test has set it, and otherwise signs the request.
func (p *fakeControlPlane) RenewCertificate(ctx context.Context, r *jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
	p.mu.Lock()
	renew := p.renew
	p.mu.Unlock()
	if renew == nil {
		renew = func(r *jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
			id, _ := pki.NodeID(rpc.Peer(ctx))
			cert, ca, err := p.sign(r.GetCertificateRequest(), id)
			return &jobsv1.RenewCertificateResponse{Certificate: cert, CaCertificate: ca}, err
		}
	}
	response, err := renew(r)
	p.renewals <- err
	return response, err
}

// renewsBy sets the function that handles renewal requests.
func (p *fakeControlPlane) renewsBy(f func(*jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renew = f
}

// Connect passes the session to the test. It returns when the test or the agent ends the session.
func (p *fakeControlPlane) Connect(s jobsv1.AgentService_ConnectServer) error {
	first, err := s.Recv()
	if err != nil || first.GetHello() == nil {
		return fault.New(fault.Refused, "hello", "no hello")
	}
	session := &stream{AgentService_ConnectServer: s, hello: first.GetHello(), heard: make(chan *jobsv1.ObservedWorks, 64), beats: make(chan *jobsv1.Heartbeat, 64), end: make(chan error, 1)}
	p.sessions <- session
	closed := make(chan error, 1)
	go func() {
		defer close(session.heard)
		for {
			m, err := s.Recv()
			if err != nil {
				closed <- err
				return
			}
			if beat := m.GetHeartbeat(); beat != nil {
				session.beats <- beat
			}
			if m.GetObserved() == nil {
				continue
			}
			select {
			case session.heard <- m.GetObserved():
			default: // The test no longer reads observations.
			}
		}
	}()
	select {
	case err := <-session.end:
		return err
	case err := <-closed:
		if err == io.EOF { //nolint:errorlint // gRPC documents that Recv returns io.EOF itself
			return nil
		}
		return err
	}
}

func (p *fakeControlPlane) session() *stream { p.Helper(); return await(p.T, p.sessions, "a session") }

func await[V any](t *testing.T, from <-chan V, what string) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(guard):
		t.Fatalf("timeout waiting for: %s", what)
		panic("unreachable")
	}
}

func (s *stream) welcome(t *testing.T, heartbeat int32) {
	t.Helper()
	require.NoError(t, s.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Welcome{Welcome: &jobsv1.Welcome{HeartbeatS: heartbeat}}}))
}

func (s *stream) desire(t *testing.T, works ...*jobsv1.Work) {
	t.Helper()
	require.NoError(t, s.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: &jobsv1.DesiredWorks{Works: works}}}))
}

// host is a fake executor that records the lists passed to Apply.
type host struct {
	mu      sync.Mutex
	seen    []executor.Observation
	applied chan []executor.Work
	changes chan struct{}
}

func newHost() *host {
	return &host{applied: make(chan []executor.Work, 64), changes: make(chan struct{}, 1)}
}

func (h *host) Apply(_ context.Context, works []executor.Work) error {
	h.applied <- works
	return nil
}

func (h *host) Observed() []executor.Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

func (h *host) Changes() <-chan struct{} { return h.changes }

func (h *host) setObserved(all ...executor.Observation) {
	h.mu.Lock()
	h.seen = all
	h.mu.Unlock()
	h.changes <- struct{}{}
}

// member is a running link.
type member struct {
	*Link
	host *host
	dir  string
	done chan error
	stop func()
}

// link starts a link that uses the given folder and the clock of the fake control plane. The function change may change
// its dependencies.
func (p *fakeControlPlane) link(dir string, change ...func(*Deps)) *member {
	p.Helper()
	m := &member{host: newHost(), dir: dir, done: make(chan error, 1)}
	retry := clock.Backoff{Base: time.Nanosecond, Max: time.Nanosecond, Jitter: func() float64 { return 0 }}
	log := slog.New(slog.NewTextHandler(p.Output(), nil))
	d := Deps{
		Membership: Membership{
			Dir: dir, Joiner: p, Hostname: "h", Clock: p.clock, Log: log, Backoff: retry, Inventory: &jobsv1.Inventory{Cpus: 7},
			Token: func(context.Context) (secret.String, error) { return secret.New("t"), nil },
		},
		Dial: func(n Node) (*grpc.ClientConn, error) { return DialTLS(p.clock)(n) }, Clock: p.clock, Incarnation: "inc",
		Drivers: []string{"command"}, Backoff: retry, Log: log, Pythons: func() []string { return []string{"cuda"} },
		Boundary: func(context.Context) (*jobsv1.NodeBoundary, error) {
			return &jobsv1.NodeBoundary{Kind: "own_user"}, nil
		},
	}
	for _, fn := range change {
		fn(&d)
	}
	m.Link = New(d)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { m.done <- m.Run(ctx, m.host) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(p, await(p.T, m.done, "the link ends"))
	})
	p.Cleanup(cancel)
	return m
}
