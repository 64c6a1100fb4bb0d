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

// authPeer stands in for auth: a project for all, and one of a team.
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

// runsPeer stands in for the runs of jobs and ingest.
type runsPeer struct {
	jobspeerv1.UnimplementedRunPeerServiceServer
	ingestpeerv1.UnimplementedRunDataPeerServiceServer

	mu        sync.Mutex
	owners    map[string]*jobspeerv1.RunOwner
	artifacts map[string]*ingestpeerv1.GetArtifactResponse
	users     map[string][]string // jobs by the reference of a model
}

func (p *runsPeer) GetRunOwner(_ context.Context, in *jobspeerv1.GetRunOwnerRequest) (*jobspeerv1.RunOwner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.owners[in.GetId()]; ok {
		return o, nil
	}
	return nil, fault.Absentf("run", in.GetId())
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

// worksPeer stands in for the engines of jobs: it keeps what it is told and says what a test makes it see.
type worksPeer struct {
	jobspeerv1.UnimplementedWorkPeerServiceServer

	mu      sync.Mutex
	orders  map[string]*jobspeerv1.PutWorkRequest
	seen    map[string]*jobspeerv1.WorkStatus
	told    map[string]*jobspeerv1.WorkStatus // what the last watcher was sent
	changed chan struct{}                     // closed and renewed with each change
	refuse  error
}

func newWorksPeer() *worksPeer {
	return &worksPeer{
		orders: map[string]*jobspeerv1.PutWorkRequest{}, seen: map[string]*jobspeerv1.WorkStatus{}, changed: make(chan struct{}),
		told: map[string]*jobspeerv1.WorkStatus{},
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
			// A repeat, as jobs takes it: a queue that was stopped in the middle brings an order twice.
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

func (p *worksPeer) put(s *jobspeerv1.WorkStatus) {
	p.seen[s.GetWorkId()] = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// see makes a work look like that to the registry.
func (p *worksPeer) see(s *jobspeerv1.WorkStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.GetObserved() != nil {
		s.Observed.WorkId, s.Observed.Generation, s.Observed.Fence = s.GetWorkId(), s.GetGeneration(), s.GetFence()
	}
	p.put(s)
}

// order is what the registry last asked for a revision, nil where it did not.
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

// of is the last order of a work.
func (p *worksPeer) of(workID string) *jobspeerv1.PutWorkRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[workID]
}

// forget loses what was ordered, as a jobs restored from an old backup would.
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
			p.told[s.GetWorkId()] = s
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

// reported makes jobs know a work that the registry did not order.
func (p *worksPeer) reported(workID string) {
	p.see(&jobspeerv1.WorkStatus{
		WorkId: workID, Generation: 1, Fence: 1, NodeId: "nod_1",
		Observed: &jobsv1.ObservedWork{Phase: jobsv1.Phase_PHASE_RUNNING},
	})
}

// delivered says whether the registry was sent the present state of a work.
func (p *worksPeer) delivered(workID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told[workID] == p.seen[workID]
}
