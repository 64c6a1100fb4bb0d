package auth

import (
	"context"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/services/auth/internal/oauth"
)

// authority is the authorization server.
func (s *Service) authority() *oauth.Authority {
	d := s.deps
	return &oauth.Authority{
		Pool: d.Pool, Clients: s.clients(), Devices: s.devices(), Sessions: s.sessions, Audit: s.sessions.Audit,
		Clock: d.Clock, IDs: d.IDs, Rand: d.Rand, PublicURL: d.PublicURL,
	}
}

func (s *Service) clients() *oauth.Clients {
	return &oauth.Clients{Pool: s.deps.Pool, Clock: s.deps.Clock}
}

// RegisterClient lets a public client ask people for access to resources, or changes it. No route leads here.
func (s *Service) RegisterClient(ctx context.Context, id, name string, redirects []string) error {
	return s.clients().Register(ctx, oauth.Client{ID: id, Name: name, Redirects: redirects})
}

// registerOAuth puts both sides of the authorization server on a server.
func (s *Service) registerOAuth(r grpc.ServiceRegistrar) {
	a := s.authority()
	authv1.RegisterOAuthServiceServer(r, &oauth.Server{Authority: a})
	authpeerv1.RegisterOAuthPeerServiceServer(r, &oauth.PeerServer{Authority: a, Keys: s.keys.Ring})
}
