package auth

import (
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/services/auth/internal/project"
)

// projects are the servers of projects, for people and for services.
type projects struct {
	public *project.Server
	peer   *project.PeerServer
}

func wireProject(d Deps, trail *audit.Log) projects {
	return projects{
		public: &project.Server{Pool: d.Pool, Once: &idem.Once{Pool: d.Pool, Keys: idem.New(d.Clock)}, Audit: trail, IDs: d.IDs, Clock: d.Clock},
		peer:   &project.PeerServer{Pool: d.Pool},
	}
}

func (p projects) register(r grpc.ServiceRegistrar) {
	authv1.RegisterProjectServiceServer(r, p.public)
	authpeerv1.RegisterProjectServiceServer(r, p.peer)
}
