package registry_test

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	defaultProjectID = "prj_01k00000000000000000000001"
	teamProjectID    = "prj_01k00000000000000000000002"
)

// authPeer is a fake of the auth service with one project that is visible to all and one that is visible to its team.
type authPeer struct {
	authpeerv1.UnimplementedProjectServiceServer
}

func (authPeer) GetProject(_ context.Context, in *authpeerv1.GetProjectRequest) (*authpeerv1.Project, error) {
	switch in.GetProject() {
	case "default":
		return &authpeerv1.Project{Id: defaultProjectID, Key: "default", Visibility: "all"}, nil
	case "search":
		return &authpeerv1.Project{Id: teamProjectID, Key: "search", Visibility: "team"}, nil
	}
	return nil, fault.Absentf("project", in.GetProject())
}

// runsPeer is a fake of the run methods of the jobs and ingest services.
type runsPeer struct {
	jobspeerv1.UnimplementedRunPeerServiceServer
	ingestpeerv1.UnimplementedRunDataPeerServiceServer

	mu        sync.Mutex
	owners    map[string]*jobspeerv1.RunOwner
	artifacts map[string]*ingestpeerv1.GetArtifactResponse
	users     map[string][]string // job IDs by model reference
	protected []string            // datasets whose runs were protected
}

func (p *runsPeer) GetRunOwner(_ context.Context, in *jobspeerv1.GetRunOwnerRequest) (*jobspeerv1.RunOwner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.owners[in.GetId()]; ok {
		return o, nil
	}
	return nil, fault.Absentf("run", in.GetId())
}

func (p *runsPeer) ProtectRuns(_ context.Context, in *jobspeerv1.ProtectRunsRequest) (*jobspeerv1.ProtectRunsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.protected = append(p.protected, in.GetDatasetId()+" "+in.GetRef())
	return &jobspeerv1.ProtectRunsResponse{Runs: 1}, nil
}

func (p *runsPeer) ListModelUsers(_ context.Context, in *jobspeerv1.ListModelUsersRequest) (*jobspeerv1.ListModelUsersResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &jobspeerv1.ListModelUsersResponse{JobIds: p.users[in.GetRef()]}, nil
}

func (p *runsPeer) GetArtifact(_ context.Context, in *ingestpeerv1.GetArtifactRequest) (*ingestpeerv1.GetArtifactResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.artifacts[in.GetArtifactId()]; ok && a.GetArtifact().GetRunId() == in.GetRunId() {
		return a, nil
	}
	return nil, fault.Absentf("artifact", in.GetArtifactId())
}

// worksPeer is a fake of the work methods of the jobs service. It records orders and reports the statuses that a test
// sets.
type worksPeer struct {
	jobspeerv1.UnimplementedWorkPeerServiceServer

	mu       sync.Mutex
	orders   map[string]*jobspeerv1.PutWorkRequest
	seen     map[string]*jobspeerv1.WorkStatus
	lastSent map[string]*jobspeerv1.WorkStatus // last status sent to a watcher
	changed  chan struct{}                     // closed and replaced on each change
	refuse   error
}

func newWorksPeer() *worksPeer {
	return &worksPeer{
		orders: map[string]*jobspeerv1.PutWorkRequest{}, seen: map[string]*jobspeerv1.WorkStatus{}, changed: make(chan struct{}),
		lastSent: map[string]*jobspeerv1.WorkStatus{},
	}
}

func (p *worksPeer) PutWork(_ context.Context, in *jobspeerv1.PutWorkRequest) (*jobspeerv1.PutWorkResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	if old := p.orders[in.GetWorkId()]; old != nil {
		if old.GetGeneration() > in.GetGeneration() {
			return nil, fault.New(fault.Conflict, "work_generation", "older")
		}
		if old.GetGeneration() == in.GetGeneration() && !proto.Equal(old.GetEngine(), in.GetEngine()) {
			return nil, fault.New(fault.Conflict, "work_generation", "another spec")
		}
		if old.GetGeneration() == in.GetGeneration() && old.GetDesired() == in.GetDesired() && p.seen[in.GetWorkId()] != nil {
			// Accept a repeated order, as the jobs service does: a queue that was stopped midway delivers an order
			// twice.
			return &jobspeerv1.PutWorkResponse{}, nil
		}
	}
	p.orders[in.GetWorkId()] = in
	if in.GetDesired() == jobsv1.Desired_DESIRED_RUNNING {
		p.put(&jobspeerv1.WorkStatus{WorkId: in.GetWorkId(), Generation: in.GetGeneration(), Waiting: "no_capacity"})
	} else {
		p.put(&jobspeerv1.WorkStatus{
			WorkId: in.GetWorkId(), Generation: in.GetGeneration(),
			Observed: &jobsv1.ObservedWork{WorkId: in.GetWorkId(), Generation: in.GetGeneration(), Phase: jobsv1.Phase_PHASE_GONE},
		})
	}
	return &jobspeerv1.PutWorkResponse{Changed: true}, nil
}

// CheckPool accepts all pools except the one whose name is "open".
func (p *worksPeer) CheckPool(_ context.Context, in *jobspeerv1.CheckPoolRequest) (*jobspeerv1.CheckPoolResponse, error) {
	if in.GetPool() == "open" {
		return nil, fault.New(fault.Forbidden, "isolation", "isolation: pool open has 0 of the 1 requested nodes that isolate works")
	}
	return &jobspeerv1.CheckPoolResponse{}, nil
}

func (p *worksPeer) put(s *jobspeerv1.WorkStatus) {
	p.seen[s.GetWorkId()] = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// see sets the status of a work. The registry observes the status.
func (p *worksPeer) see(s *jobspeerv1.WorkStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.GetObserved() != nil {
		s.Observed.WorkId, s.Observed.Generation, s.Observed.Fence = s.GetWorkId(), s.GetGeneration(), s.GetFence()
	}
	p.put(s)
}

// order returns the registry's last order for a revision, or nil.
func (p *worksPeer) order(revisionID string) *jobspeerv1.PutWorkRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.orders {
		if o.GetEngine().GetRevisionId() == revisionID {
			return o
		}
	}
	return nil
}

// of returns the last order of a work, or nil.
func (p *worksPeer) of(workID string) *jobspeerv1.PutWorkRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[workID]
}

// forget drops a work, as if the jobs service had been restored from an old backup.
func (p *worksPeer) forget(workID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.orders, workID)
	delete(p.seen, workID)
}

func (p *worksPeer) WatchWorks(_ *jobspeerv1.WatchWorksRequest, stream grpc.ServerStreamingServer[jobspeerv1.WorkStatus]) error {
	sent := map[string]*jobspeerv1.WorkStatus{}
	for first := true; ; first = false {
		p.mu.Lock()
		var news []*jobspeerv1.WorkStatus
		for id, s := range p.seen {
			if sent[id] != s {
				sent[id] = s
				news = append(news, s)
			}
		}
		changed := p.changed
		p.mu.Unlock()
		for _, s := range news {
			if err := stream.Send(s); err != nil {
				return err
			}
			p.mu.Lock()
			p.lastSent[s.GetWorkId()] = s
			p.mu.Unlock()
		}
		if first {
			if err := stream.Send(&jobspeerv1.WorkStatus{Synced: true}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// reported adds a running work that the registry did not order.
func (p *worksPeer) reported(workID string) {
	p.see(&jobspeerv1.WorkStatus{
		WorkId: workID, Generation: 1, Fence: 1, NodeId: "nod_1",
		Observed: &jobsv1.ObservedWork{Phase: jobsv1.Phase_PHASE_RUNNING},
	})
}

// delivered reports whether a watcher has received the current status of a work.
func (p *worksPeer) delivered(workID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastSent[workID] == p.seen[workID]
}
