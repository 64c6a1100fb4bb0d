package agent_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// fakeControlPlane implements the agent listener of the jobs service, and the gateway's routes to join a fleet and to
// send logs. Over TCP it uses real certificates.
type fakeControlPlane struct {
	jobsv1.UnimplementedAgentServiceServer
	jobsv1.UnimplementedFleetServiceServer

	t       *testing.T
	ca      *pki.CA
	http    *httptest.Server
	address string

	mu sync.Mutex
	// joinedAt is the start of the validity of issued certificates. Zero means the current time.
	joinedAt time.Time
	// object is the URL of every signed download. If it is empty, SignDownload returns an unavailable error.
	object   string
	desired  []*jobsv1.Work
	observed []*jobsv1.ObservedWork
	changed  chan struct{} // closed and replaced after each observation
	wake     chan struct{} // closed and replaced when desired or removed changes
	removed  bool          // if true, the node was removed: its streams end, and new streams are rejected
	hellos   []*jobsv1.AgentHello
	joins    int
	logs     strings.Builder
	numbers  map[string]bool
}

const joinToken = "join-token-of-the-test"

func newFakeControlPlane(t *testing.T) *fakeControlPlane {
	t.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	c := &fakeControlPlane{t: t, ca: ca, changed: make(chan struct{}), wake: make(chan struct{}), numbers: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/fleets/join", c.join)
	mux.HandleFunc("POST /api/ingest/logs", c.takeLogs)
	mux.HandleFunc("GET /object", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	c.http = httptest.NewServer(mux)
	t.Cleanup(c.http.Close)
	return c
}

// serve accepts connections of agents on the network until the test ends. If the listener service is not nil, serve
// also accepts connections to FleetService on that listener.
func (c *fakeControlPlane) serve(network rpc.Network, service *rpc.Listener) {
	c.t.Helper()
	agents, err := network.ListenAgents("jobs")
	require.NoError(c.t, err)
	c.mu.Lock()
	c.address = agents.Addr().String()
	c.mu.Unlock()
	s := rpc.NewServer(rpc.ServerOptions{
		Service: "jobs", Log: slog.New(slog.NewTextHandler(c.t.Output(), nil)), Clock: clock.Real(),
		NewRequestID: func() string { return "req_test" }, StopTimeout: time.Second,
	})
	jobsv1.RegisterAgentServiceServer(s, c)
	listeners := []*rpc.Listener{agents}
	if service != nil {
		jobsv1.RegisterFleetServiceServer(s, c)
		listeners = append(listeners, service)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listeners...) }()
	c.t.Cleanup(func() { cancel(); require.NoError(c.t, <-done) })
}

// listenTCP serves agents on a TCP port of the loopback interface, with real certificates.
func (c *fakeControlPlane) listenTCP() {
	c.t.Helper()
	pair, err := c.ca.IssueService("jobs", clock.Real().Now(), time.Hour)
	require.NoError(c.t, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, c.ca.CertPEM())
	require.NoError(c.t, err)
	wire, err := rpc.TCP(rpc.TCPConfig{
		Identity: identity, ListenAgents: "127.0.0.1:0", Client: rpc.ClientOptions{Clock: clock.Real()},
	})
	require.NoError(c.t, err)
	c.serve(wire, nil)
}

func (c *fakeControlPlane) admit(token, request string) (*jobsv1.JoinFleetResponse, error) {
	if token != joinToken {
		return nil, fault.New(fault.Unauthenticated, "join_token", "the join token is unknown or used")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.joinedAt
	if from.IsZero() {
		from = clock.Real().Now()
	}
	cert, err := c.ca.SignNode([]byte(request), "nod_1", from, time.Hour)
	if err != nil {
		return nil, err
	}
	c.joins++
	return &jobsv1.JoinFleetResponse{
		NodeId: "nod_1", Certificate: string(cert), CaCertificate: string(c.ca.CertPEM()), AgentAddress: c.address, HeartbeatS: 1,
	}, nil
}

// JoinFleet handles the join request of an agent in the same process.
func (c *fakeControlPlane) JoinFleet(_ context.Context, r *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	return c.admit(r.GetToken(), r.GetCertificateRequest())
}

// join handles the gateway's join route.
func (c *fakeControlPlane) join(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token              string         `json:"token"`
		Hostname           string         `json:"hostname"`
		CertificateRequest string         `json:"certificate_request"`
		Inventory          map[string]any `json:"inventory"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Hostname == "" || body.Inventory["cpus"] == nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	response, err := c.admit(body.Token, body.CertificateRequest)
	if err != nil {
		fault.Write(w, err, "req_test")
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"node_id": response.GetNodeId(), "certificate": response.GetCertificate(), "ca_certificate": response.GetCaCertificate(),
		"agent_address": response.GetAgentAddress(), "heartbeat_s": response.GetHeartbeatS(),
	})
}

func (c *fakeControlPlane) takeLogs(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body struct {
		Chunks []string `json:"chunks"`
	}
	if err != nil || json.Unmarshal(raw, &body) != nil || r.Header.Get("Authorization") != "Bearer ingest-token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := r.Header.Get("Idempotency-Key"); !c.numbers[key] {
		c.numbers[key] = true
		c.logs.WriteString(strings.Join(body.Chunks, ""))
	}
}

// Connect handles an agent's stream.
func (c *fakeControlPlane) Connect(stream jobsv1.AgentService_ConnectServer) error {
	if rpc.Peer(stream.Context()) != "node/nod_1" {
		return fault.New(fault.Forbidden, "node", "not a node of this fleet")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.hellos = append(c.hellos, first.GetHello())
	c.mu.Unlock()
	failed := make(chan error, 1)
	go func() { failed <- c.listen(stream) }()
	err = stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Welcome{Welcome: &jobsv1.Welcome{HeartbeatS: 1}}})
	for err == nil {
		c.mu.Lock()
		desired, wake, removed := &jobsv1.DesiredWorks{Works: c.desired}, c.wake, c.removed
		c.mu.Unlock()
		if removed {
			return fault.New(fault.Unauthenticated, "node_removed", "node nod_1 was removed; join again with a new join token")
		}
		if err = stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: desired}}); err == nil {
			select {
			case <-wake:
			case err = <-failed:
			}
		}
	}
	return err
}

func (c *fakeControlPlane) listen(stream jobsv1.AgentService_ConnectServer) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		if o := message.GetObserved(); o != nil {
			c.mu.Lock()
			c.observed = o.GetWorks()
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
		}
	}
}

// MintIngestToken returns the token that the log route accepts.
func (c *fakeControlPlane) MintIngestToken(context.Context, *jobsv1.MintIngestTokenRequest) (*jobsv1.IngestToken, error) {
	return &jobsv1.IngestToken{Token: "ingest-token"}, nil
}

// SignDownload returns the URL in c.object.
func (c *fakeControlPlane) SignDownload(context.Context, *jobsv1.SignDownloadRequest) (*jobsv1.SignedDownload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.object == "" {
		return nil, fault.New(fault.Unavailable, "away", "the object store is unavailable")
	}
	return &jobsv1.SignedDownload{Url: c.object}, nil
}

func (c *fakeControlPlane) downloads(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.object = url
}

func (c *fakeControlPlane) setDesired(works ...*jobsv1.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired = works
	close(c.wake)
	c.wake = make(chan struct{})
}

func (c *fakeControlPlane) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = true
	close(c.wake)
	c.wake = make(chan struct{})
}

// until waits for an observation for which accept returns true. It fails the test after a minute.
func (c *fakeControlPlane) until(what string, accept func(*jobsv1.ObservedWork) bool) *jobsv1.ObservedWork {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		all, changed := c.observed, c.changed
		c.mu.Unlock()
		for _, o := range all {
			if accept(o) {
				return o
			}
		}
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("timeout waiting for: %s; observed: %v", what, all)
		}
	}
}

// next waits for the agent's next observation.
func (c *fakeControlPlane) next() []*jobsv1.ObservedWork {
	c.t.Helper()
	c.mu.Lock()
	changed := c.changed
	c.mu.Unlock()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		c.t.Fatal("timeout waiting for the agent's next observation")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observed
}

func (c *fakeControlPlane) phase(p jobsv1.Phase) *jobsv1.ObservedWork {
	c.t.Helper()
	return c.until(p.String(), func(o *jobsv1.ObservedWork) bool { return o.GetPhase() == p })
}

// awaitNoWorks waits until the agent's latest observation contains no works.
func (c *fakeControlPlane) awaitNoWorks() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.observed) == 0
	}, time.Minute, 20*time.Millisecond)
}

func (c *fakeControlPlane) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs.String()
}

// script returns an attempt that runs the given shell script.
func (c *fakeControlPlane) script(text string) *jobsv1.Work {
	return &jobsv1.Work{
		WorkId: "wrk_1", Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Generation: 1, Fence: 1, Desired: jobsv1.Desired_DESIRED_RUNNING,
		Spec: &jobsv1.Work_Attempt{Attempt: &jobsv1.AttemptSpec{
			JobId: "job_1", RunId: "run_1", Attempt: 1, Command: []string{"/bin/sh", "-c", text},
			IngestEndpoint: c.http.URL + "/api/ingest", GraceS: 5,
		}},
	}
}

func touched(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

func environments(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../.cache/agent-envs")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return dir
}
