package auth

import (
	"context"
	"time"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/auth/internal/project"
)

// projects holds the project servers: the public one and the one for other services.
type projects struct {
	public *project.Server
	peer   *project.PeerServer
	copies *project.VisibilitySync
}

// copyHolders returns the services that copy the visibility of projects into their rows. Inference is not one of
// them: it gets the visibility from the registry.
func copyHolders(peers map[string]grpc.ClientConnInterface) []project.Holder {
	out := []project.Holder{{Name: "jobs"}, {Name: "ingest"}, {Name: "registry"}}
	for i := range out {
		if conn := peers[out[i].Name]; conn != nil {
			out[i].Client = commonpeerv1.NewOwnerPeerServiceClient(conn)
		}
	}
	return out
}

func wireProject(d Deps, trail *audit.Log) projects {
	copies := &project.VisibilitySync{Pool: d.Pool, Clock: d.Clock, Holders: copyHolders(d.Peers)}
	return projects{
		public: &project.Server{
			Pool: d.Pool, Once: &idempotency.Once{Pool: d.Pool, Keys: idempotency.New(d.Clock)}, Audit: trail, IDs: d.IDs, Clock: d.Clock, Copies: copies,
		},
		peer:   &project.PeerServer{Pool: d.Pool},
		copies: copies,
	}
}

// finishEvery is the interval between two attempts to send visibilities that a service has not confirmed. A random
// part of finishJitter is added.
const (
	finishEvery  = 10 * time.Second
	finishJitter = 5 * time.Second
)

// finishing returns the loop that sends unconfirmed visibilities to the services.
func (s *Service) finishing() process.Worker {
	const name = "auth.project-visibility"
	return process.Worker{Name: name, Run: func(ctx context.Context) error {
		return process.Loop(ctx, s.deps.Clock, finishEvery, finishJitter, process.Logged(s.deps.Log, name, s.projects.copies.Sweep))
	}}
}

func (p projects) register(r grpc.ServiceRegistrar) {
	authv1.RegisterProjectServiceServer(r, p.public)
	authpeerv1.RegisterProjectServiceServer(r, p.peer)
}
