package jobs_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// agent is a fake agent of a node. It sends the reports that the test chooses and records what it receives.
type agent struct {
	w        *harness
	nodeID   string
	inv      *jobsv1.Inventory
	boundary *jobsv1.NodeBoundary
	pythons  []string // the interpreters that the node offers
	builds   bool     // it builds the environments of locks
	runsOn   jobsv1.FleetKind
	slurm    *jobsv1.SlurmReport // the report in its hello

	client jobsv1.AgentServiceClient
	stream jobsv1.AgentService_ConnectClient
	cancel context.CancelFunc

	mu      sync.Mutex
	desired *jobsv1.DesiredWorks
	err     error
	changed chan struct{}
	works   map[string]*jobsv1.ObservedWork
	// forgotten are the ids of the works that the agent has had.
	forgotten map[string]bool
}

// join joins a node to a fleet and opens its stream.
func (w *harness) join(fleet *jobsv1.Fleet, inv *jobsv1.Inventory, change ...func(*agent)) *agent {
	w.t.Helper()
	tok, err := w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(w.t, err)
	joined, err := w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
		Token: tok.GetToken(), Hostname: "host", CertificateRequest: "request", Inventory: inv,
	})
	require.NoError(w.t, err)
	a := &agent{w: w, nodeID: joined.GetNodeId(), inv: inv, works: map[string]*jobsv1.ObservedWork{}, forgotten: map[string]bool{}, boundary: &jobsv1.NodeBoundary{Kind: "own_user", Required: true}}
	for _, c := range change {
		c(a)
	}
	a.connect()
	return a
}

func cpuNode() *jobsv1.Inventory {
	return &jobsv1.Inventory{Cpus: 2, MemoryBytes: 8 << 30, Limits: "rlimit", Version: "test"}
}

func gpuNode(gpus int32) *jobsv1.Inventory {
	return &jobsv1.Inventory{Cpus: 64, MemoryBytes: 512 << 30, Gpus: gpus, Limits: "cgroup2", Version: "test"}
}

// connect opens a stream and reports all work that the agent knows.
func (a *agent) connect() {
	a.w.t.Helper()
	a.client = jobsv1.NewAgentServiceClient(a.w.dial("node/" + a.nodeID))
	ctx, cancel := context.WithCancel(a.w.t.Context())
	stream, err := a.client.Connect(ctx)
	require.NoError(a.w.t, err)
	a.stream, a.cancel = stream, cancel
	require.NoError(a.w.t, stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Hello{Hello: &jobsv1.AgentHello{
		NodeId: a.nodeID, Inventory: a.inv, Incarnation: "one", Drivers: []string{"llamacpp"},
		Boundary: a.boundary, Pythons: a.pythons, BuildsEnvironments: a.builds, RunsOn: a.runsOn, Slurm: a.slurm,
	}}}))
	a.mu.Lock()
	a.desired, a.err, a.changed = nil, nil, make(chan struct{}, 1)
	changed := a.changed
	a.mu.Unlock()
	go a.receive(stream, changed)
	a.report()
}

func (a *agent) receive(stream jobsv1.AgentService_ConnectClient, changed chan struct{}) {
	for {
		m, err := stream.Recv()
		a.mu.Lock()
		if err != nil {
			a.err = err
		} else if m.GetDesired() != nil {
			a.desired = m.GetDesired()
		}
		a.mu.Unlock()
		select {
		case changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// wait waits until the function ok returns true for the desired works, and returns these works.
func (a *agent) wait(what string, ok func(works []*jobsv1.Work) bool) []*jobsv1.Work {
	a.w.t.Helper()
	deadline := time.After(patience)
	beat := time.NewTicker(300 * time.Millisecond)
	defer beat.Stop()
	for {
		a.mu.Lock()
		desired, err := a.desired, a.err
		a.mu.Unlock()
		require.NoError(a.w.t, err)
		if desired != nil && ok(desired.GetWorks()) {
			return desired.GetWorks()
		}
		select {
		case <-a.changed:
		case <-beat.C:
			a.heartbeat()
		case <-deadline:
			require.FailNow(a.w.t, "the agent did not receive the desired work", "%s; received: %v", what, desired)
		}
	}
}

// work waits for a work item of the given kind that should run and that the agent has not reported yet.
func (a *agent) work(kind jobsv1.WorkKind) *jobsv1.Work {
	a.w.t.Helper()
	var found *jobsv1.Work
	a.wait("a new work item", func(works []*jobsv1.Work) bool {
		for _, w := range works {
			if w.GetKind() == kind && w.GetDesired() == jobsv1.Desired_DESIRED_RUNNING && a.works[w.GetWorkId()] == nil && !a.forgotten[w.GetWorkId()] {
				found = w
				return true
			}
		}
		return false
	})
	return found
}

func (a *agent) attempt() *jobsv1.Work { return a.work(jobsv1.WorkKind_WORK_KIND_ATTEMPT) }

// report reports all work that the agent knows. If the server has ended the stream, receive has the reason.
func (a *agent) report() {
	a.w.t.Helper()
	works := make([]*jobsv1.ObservedWork, 0, len(a.works))
	for _, o := range a.works {
		works = append(works, o)
	}
	err := a.stream.Send(&jobsv1.ConnectRequest{
		Message: &jobsv1.ConnectRequest_Observed{Observed: &jobsv1.ObservedWorks{Works: works}},
	})
	if !errors.Is(err, io.EOF) {
		require.NoError(a.w.t, err)
	}
}

func (a *agent) heartbeat() {
	// The server sees that the stream has ended when it receives the next message.
	_ = a.stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{}}})
}

// see records the phase of a work item and reports the phase to the server.
func (a *agent) see(w *jobsv1.Work, phase jobsv1.Phase, change ...func(*jobsv1.ObservedWork)) {
	a.w.t.Helper()
	o := &jobsv1.ObservedWork{WorkId: w.GetWorkId(), Generation: w.GetGeneration(), Fence: w.GetFence(), Phase: phase}
	if phase >= jobsv1.Phase_PHASE_PREPARING {
		o.PreparingAt = timestamppb.Now()
	}
	if phase >= jobsv1.Phase_PHASE_RUNNING {
		o.RunningAt = timestamppb.Now()
	}
	for _, c := range change {
		c(o)
	}
	a.works[w.GetWorkId()] = o
	a.report()
}

// exit reports the exit of a work item.
func (a *agent) exit(w *jobsv1.Work, code int32, reason, message string) {
	a.w.t.Helper()
	a.see(w, jobsv1.Phase_PHASE_EXITED, func(o *jobsv1.ObservedWork) {
		o.ExitedAt, o.Exit = timestamppb.Now(), &jobsv1.Exit{Code: code, Reason: reason, Message: message}
	})
}

// forget removes a work item from the agent, as an agent does when the item is no longer desired.
func (a *agent) forget(w *jobsv1.Work) {
	a.w.t.Helper()
	delete(a.works, w.GetWorkId())
	a.forgotten[w.GetWorkId()] = true // the server may not have heard of its end yet
	a.report()
}
