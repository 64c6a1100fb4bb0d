package auth

import (
	"context"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/team"
)

// teams holds the team server, the server that searches auth, and the account server for other services.
type teams struct {
	public *team.Server
	find   *team.FindServer
	peer   *team.PeerServer
}

func wireTeam(d Deps, trail *audit.Log) teams {
	return teams{
		public: &team.Server{Pool: d.Pool, Once: &idempotency.Once{Pool: d.Pool, Keys: idempotency.New(d.Clock)}, Audit: trail, IDs: d.IDs, Clock: d.Clock},
		find:   &team.FindServer{Pool: d.Pool},
		peer:   &team.PeerServer{Pool: d.Pool},
	}
}

// ProjectRoles returns all project roles of an account. Auth's own server calls it instead of an RPC.
func (s *Service) ProjectRoles(ctx context.Context, accountID string) ([]authn.ProjectRole, error) {
	members, err := account.AllMemberships(ctx, s.deps.Pool, accountID)
	if err != nil {
		return nil, err
	}
	return account.Roles(members), nil
}

func (t teams) register(r grpc.ServiceRegistrar) {
	authv1.RegisterTeamServiceServer(r, t.public)
	searchv1.RegisterSearchServiceServer(r, t.find)
	authpeerv1.RegisterAccountPeerServiceServer(r, t.peer)
}
