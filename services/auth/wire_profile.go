package auth

import (
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/services/auth/internal/profile"
)

// registerProfile puts the server of what people change of themselves on a server.
func (s *Service) registerProfile(r grpc.ServiceRegistrar) {
	d, trail := s.deps, s.sessions.Audit
	authv1.RegisterProfileServiceServer(r, &profile.Server{
		Pool: d.Pool, Sessions: s.sessions, Audit: trail,
		Passwords: &profile.Passwords{
			Pool: d.Pool, Limit: s.limit, Hasher: s.sessions.Password, Sessions: s.sessions, Audit: trail, On: s.passwords(),
		},
	})
}
