package auth

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/profile"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// holders returns the services that store objects with owners, in the order in which a transfer calls them. jobs
// comes before ingest, because ingest copies the owner of a run from jobs. Inference stores no owners.
func holders(peers map[string]grpc.ClientConnInterface) []account.Holder {
	out := []account.Holder{{Name: "jobs"}, {Name: "ingest"}, {Name: "registry"}}
	for i := range out {
		if conn := peers[out[i].Name]; conn != nil {
			out[i].Client = commonpeerv1.NewOwnerPeerServiceClient(conn)
		}
	}
	return out
}

// endings adapts Sessions to the interface of the account package, which must not import session.
type endings struct{ sessions *session.Sessions }

// EndAll ends every session of an account, except the session with the given id. An empty id matches no session.
func (e endings) EndAll(ctx context.Context, tx pgx.Tx, accountID, why, except string) error {
	_, err := e.sessions.EndAll(ctx, tx, accountID, session.Reason(why), except)
	return err
}

// registerAccount registers the user service on a server.
func (s *Service) registerAccount(r grpc.ServiceRegistrar) {
	d := s.deps
	authv1.RegisterUserServiceServer(r, &account.Server{
		Users: &account.Users{
			Pool: d.Pool, Hasher: s.sessions.Password, Sessions: endings{s.sessions}, Audit: s.sessions.Audit, Clock: d.Clock, IDs: d.IDs,
			Rand: d.Rand, Issuer: s.issuer(),
		},
		Transfers: &account.Transfers{Pool: d.Pool, Audit: s.sessions.Audit, Holders: holders(d.Peers)},
		Once:      &idempotency.Once{Pool: d.Pool, Keys: idempotency.New(d.Clock)},
	})
}

// issuer returns the OIDC issuer with which users sign in; it is empty if they use passwords.
func (s *Service) issuer() string {
	if p := s.public.Methods.OIDC; p != nil {
		return p.Issuer
	}
	return ""
}

// registerProfile registers the profile service on a server.
func (s *Service) registerProfile(r grpc.ServiceRegistrar) {
	d, trail := s.deps, s.sessions.Audit
	authv1.RegisterProfileServiceServer(r, &profile.Server{
		Pool: d.Pool, Sessions: s.sessions, Audit: trail,
		Passwords: &profile.Passwords{
			Pool: d.Pool, Limit: s.limit, Hasher: s.sessions.Password, Sessions: s.sessions, Audit: trail, On: s.issuer() == "",
		},
	})
}
