package assignment_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// serverStream is the server's end of an agent's stream. The test sends to in and receives from out.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
	in  chan *jobsv1.ConnectRequest
	out chan *jobsv1.ConnectResponse
}

func (w *serverStream) Context() context.Context { return w.ctx }

func (w *serverStream) Recv() (*jobsv1.ConnectRequest, error) {
	select {
	case m, ok := <-w.in:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
}

func (w *serverStream) Send(m *jobsv1.ConnectResponse) error {
	w.out <- m
	return nil
}

// cluster records what the stream passes to Nodes and Observer.
type cluster struct {
	mu       sync.Mutex
	session  int64
	hellos   []fleet.Hello
	beats    chan fleet.Beat
	reports  chan []assignment.Observed
	clusters chan *fleet.SlurmReport
	observed error
}

func (c *cluster) Open(_ context.Context, h fleet.Hello) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session++
	c.hellos = append(c.hellos, h)
	return c.session, nil
}

func (c *cluster) Session(context.Context, string) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, nil
}

func (c *cluster) ReportSlurm(_ context.Context, _ fleet.Beat, r *fleet.SlurmReport) error {
	c.clusters <- r
	return nil
}

func (c *cluster) Beat(b fleet.Beat) { c.beats <- b }

func (c *cluster) Observe(_ context.Context, _ string, report []assignment.Observed) error {
	c.reports <- report
	return c.observed
}

// agent is an open stream of nod_1.
type agent struct {
	*serverStream
	*cluster
	hub  *pg.NotifyHub
	end  context.CancelFunc
	done chan error
}

func (b *harness) connect(c *cluster) *agent {
	b.t.Helper()
	ctx, cancel := context.WithCancel(asNode(b.t.Context(), "nod_1"))
	a := &agent{
		serverStream: &serverStream{ctx: ctx, in: make(chan *jobsv1.ConnectRequest, 9), out: make(chan *jobsv1.ConnectResponse, 99)},
		cluster:      c, hub: pg.NewNotifyHub(), end: cancel, done: make(chan error, 1),
	}
	b.t.Cleanup(cancel)
	agents := &assignment.Agents{
		Pool: b.pool, Works: b.works, Observer: c, Nodes: c, Hub: a.hub, Clock: b.clock, Heartbeat: 10 * time.Second,
		IngestEndpoint: func() string { return "http://x/api/ingest" },
	}
	go func() { a.done <- agents.Serve(a.serverStream) }()
	return a
}

func newCluster() *cluster {
	return &cluster{beats: make(chan fleet.Beat, 99), reports: make(chan []assignment.Observed, 99), clusters: make(chan *fleet.SlurmReport, 9)}
}

func hello(node string) *jobsv1.ConnectRequest {
	return &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Hello{Hello: &jobsv1.AgentHello{
		NodeId: node, Incarnation: "one", Drivers: []string{"llamacpp"}, Pythons: []string{"jax", "cuda"}, BuildsEnvironments: true,
		Inventory: &jobsv1.Inventory{Cpus: 4, MemoryBytes: 5, Gpus: 6, Limits: "cgroup2", Version: "v1"},
		Boundary:  &jobsv1.NodeBoundary{Kind: "own_user", Required: true, Users: new("1-9"), Namespaces: []string{"pid"}, Unlimited: []string{"disk"}},
	}}}
}

func observed(works ...*jobsv1.ObservedWork) *jobsv1.ConnectRequest {
	return &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Observed{Observed: &jobsv1.ObservedWorks{Works: works}}}
}

func heartbeat() *jobsv1.ConnectRequest {
	return &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{}}}
}

// open sends hello, and reads the welcome and the first desired works.
func (a *agent) open(t *testing.T) []*jobsv1.Work {
	t.Helper()
	a.in <- hello("nod_1")
	require.EqualValues(t, 10, (<-a.out).GetWelcome().GetHeartbeatS())
	return (<-a.out).GetDesired().GetWorks()
}

func TestAgentStream_startsWithWelcomeAndDesiredWorks(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	b.attempt("wrk_2")
	b.exec(`UPDATE work SET node_id = 'nod_2' WHERE id = 'wrk_2'`)
	a := b.connect(newCluster())
	works := a.open(t)
	require.Len(t, works, 1, "the list must have only the works of this node")
	require.Equal(t, "wrk_1", works[0].GetWorkId())
	require.Equal(t, "http://x/api/ingest", works[0].GetAttempt().GetIngestEndpoint())
	require.Equal(t, []fleet.Hello{{
		NodeID: "nod_1", Incarnation: "one", Drivers: []string{"llamacpp"}, Runtimes: []string{"node:cuda", "node:jax", "requirements"}, RunsOn: fleet.KindAgent,
		Inventory: fleet.Inventory{CPUs: 4, MemoryBytes: 5, GPUs: 6, Limits: "cgroup2", Version: "v1"},
		Boundary:  fleet.Boundary{Kind: "own_user", Required: true, Users: "1-9", Namespaces: []string{"pid"}, Unlimited: []string{"disk"}},
	}}, a.hellos)
}

func TestAgentStream_firstMessageMustBeOwnHello(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first *jobsv1.ConnectRequest
		kind  fault.Kind
	}{
		"heartbeat":     {heartbeat(), fault.Refused},
		"report":        {observed(), fault.Refused},
		"empty message": {&jobsv1.ConnectRequest{}, fault.Refused},
		"other node":    {hello("nod_2"), fault.Forbidden},
		"empty node ID": {hello(""), fault.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHarness(t).connect(newCluster())
			a.in <- c.first
			err := <-a.done
			require.True(t, fault.Is(err, c.kind), "%v", err)
			require.Empty(t, a.hellos)
			require.Empty(t, a.out)
		})
	}
}

// Desired works are sent in full, after every change and with every heartbeat of the server.
func TestAgentStream_sendsDesiredOnChangeAndHeartbeat(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	a := b.connect(newCluster())
	require.Empty(t, a.open(t))
	b.attempt("wrk_1")
	a.hub.Wake(db.NodeTopic("nod_1"))
	require.Len(t, (<-a.out).GetDesired().GetWorks(), 1)
	a.hub.Wake(db.NodeTopic("nod_1")) // nothing has changed, so nothing is sent
	b.exec(`UPDATE work SET desired = 'stopped'`)
	a.hub.Wake(db.NodeTopic("nod_1"))
	require.Equal(t, stopped, (<-a.out).GetDesired().GetWorks()[0].GetDesired())
	for range 3 {
		require.NoError(t, b.clock.Await(t.Context(), 1))
		b.clock.Advance(10 * time.Second)
		require.Equal(t, stopped, (<-a.out).GetDesired().GetWorks()[0].GetDesired(), "each heartbeat must repeat the desired works")
	}
	require.Empty(t, a.out)
}

func TestAgentStream_reportsInOrderWithHeartbeats(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	a := b.connect(newCluster())
	a.open(t)
	phases := []jobsv1.Phase{
		jobsv1.Phase_PHASE_PREPARING, jobsv1.Phase_PHASE_RUNNING, jobsv1.Phase_PHASE_PREPARING, jobsv1.Phase_PHASE_RUNNING, jobsv1.Phase_PHASE_RUNNING,
	}
	for _, p := range phases {
		a.in <- observed(&jobsv1.ObservedWork{WorkId: "wrk_1", Generation: 2, Fence: 3, Phase: p})
		a.in <- heartbeat()
	}
	for _, want := range []string{"preparing", "running", "preparing", "running", "running"} {
		report := <-a.reports
		require.Equal(t, []assignment.Observed{{Key: assignment.Key{ID: "wrk_1", Generation: 2, Fence: 3}, Phase: want}}, report)
	}
	for range 2 * len(phases) {
		require.Equal(t, fleet.Beat{NodeID: "nod_1", Session: 1}, <-a.beats)
	}
}

// A reported work that is not desired is sent back as gone, with the generation and fence that the node reported.
func TestAgentStream_undesiredWorkIsSentAsGone(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	a := b.connect(newCluster())
	a.open(t)
	stray := &jobsv1.ObservedWork{WorkId: "wrk_old", Generation: 5, Fence: 4, Phase: jobsv1.Phase_PHASE_RUNNING}
	mine := &jobsv1.ObservedWork{WorkId: "wrk_1", Generation: 9, Fence: 9, Phase: jobsv1.Phase_PHASE_RUNNING}
	a.in <- observed(stray, mine)
	works := (<-a.out).GetDesired().GetWorks()
	require.Len(t, works, 2)
	require.Equal(t, running, works[0].GetDesired(), "a work must still be desired if the node reported another execution of it")
	require.EqualValues(t, 1, works[0].GetGeneration())
	require.Equal(t, "wrk_old", works[1].GetWorkId())
	require.Equal(t, gone, works[1].GetDesired())
	require.Equal(t, [2]int64{5, 4}, [2]int64{works[1].GetGeneration(), works[1].GetFence()})
	a.in <- observed(mine)
	require.Len(t, (<-a.out).GetDesired().GetWorks(), 1, "a work that the node no longer reports must not be listed as gone")
}

// The older of two streams of a node can neither report nor receive works.
func TestAgentStream_newerStreamEndsOlder(t *testing.T) {
	t.Parallel()
	for name, poke := range map[string]func(b *harness, a *agent){
		"on report":    func(_ *harness, a *agent) { a.in <- observed() },
		"on change":    func(_ *harness, a *agent) { a.hub.Wake(db.NodeTopic("nod_1")) },
		"on heartbeat": func(b *harness, _ *agent) { b.clock.Advance(10 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, c := newHarness(t), newCluster()
			a := b.connect(c)
			a.open(t)
			require.NoError(t, b.clock.Await(t.Context(), 1))
			_, err := c.Open(t.Context(), fleet.Hello{})
			require.NoError(t, err)
			b.attempt("wrk_1")
			poke(b, a)
			err = <-a.done
			require.True(t, fault.HasCode(err, "superseded"), "%v", err)
			require.Empty(t, a.out, "the older stream must not receive new work")
			require.Empty(t, a.reports)
		})
	}
}

func TestAgentStream_end(t *testing.T) {
	t.Parallel()
	broken := errors.New("the database is down")
	for name, c := range map[string]struct {
		end  func(a *agent)
		want error
	}{
		"agent closes the stream":  {func(a *agent) { close(a.in) }, nil},
		"connection breaks":        {func(a *agent) { a.end() }, context.Canceled},
		"report cannot be applied": {func(a *agent) { a.in <- observed() }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCluster()
			cl.observed = broken
			a := newHarness(t).connect(cl)
			a.open(t)
			c.end(a)
			if err := <-a.done; c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want, "the stream must end, so that the agent reconnects and reports again")
			}
		})
	}
}
