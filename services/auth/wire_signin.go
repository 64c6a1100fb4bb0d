package auth

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
	"github.com/signalbox-dev/signalbox/services/auth/internal/oauth"
	"github.com/signalbox-dev/signalbox/services/auth/internal/oidc"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// deviceSessions opens the sessions of approved devices. These sessions have an API access token and no refresh token:
// when the token has expired, the command line runs the device flow again.
type deviceSessions struct{ sessions *session.Sessions }

// OpenDevice opens a session in the transaction that uses the device code.
func (d deviceSessions) OpenDevice(ctx context.Context, tx pgx.Tx, o device.SessionRequest) (device.Token, error) {
	t, err := d.sessions.OpenTx(ctx, tx, session.OpenRequest{
		AccountID: o.AccountID, Method: session.MethodDevice, ClientAddress: o.Address, ClientName: o.ClientName,
	})
	return device.Token{Access: t.Access, Expires: t.ExpiresIn}, err
}

// devices returns the device flow, for its JSON routes and its form endpoints.
func (s *Service) devices() *device.Flow {
	return &device.Flow{
		Pool: s.deps.Pool, Sessions: deviceSessions{s.sessions}, Audit: s.sessions.Audit, Clock: s.deps.Clock, IDs: s.deps.IDs, Rand: s.deps.Rand,
	}
}

// registerDevice registers the JSON API of the device flow on a server and announces the flow in the sign-in
// configuration.
func (s *Service) registerDevice(r grpc.ServiceRegistrar) {
	s.public.Methods.DeviceFlow = true
	authv1.RegisterDeviceServiceServer(r, &device.Server{Flow: s.devices(), PublicURL: s.deps.PublicURL})
}

// sweeping returns a loop that deletes expired rows.
func (s *Service) sweeping(name string, sweep func(context.Context) error) process.Worker {
	return process.Worker{Name: name, Run: func(ctx context.Context) error {
		return process.Loop(ctx, s.deps.Clock, sweepEvery, sweepJitter, process.Logged(s.deps.Log, name, sweep))
	}}
}

// authority returns the authorization server.
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

// RegisterClient creates or updates a public client. Users can then allow the client to access resources. No route
// calls RegisterClient.
func (s *Service) RegisterClient(ctx context.Context, id, name string, redirects []string) error {
	return s.clients().Register(ctx, oauth.Client{ID: id, Name: name, Redirects: redirects})
}

// SignInLink is a link that signs in an admin once.
type SignInLink = session.Link

// CreateSignInLink creates a sign-in link. The caller must show it only to the user who runs this process, and only if
// the installation listens on this machine alone.
func (s *Service) CreateSignInLink(ctx context.Context) (SignInLink, error) {
	return s.sessions.CreateLink(ctx)
}

// registerOAuth registers the authorization server's public service and its service for the gateway.
func (s *Service) registerOAuth(r grpc.ServiceRegistrar) {
	a := s.authority()
	authv1.RegisterOAuthServiceServer(r, &oauth.Server{Authority: a})
	authpeerv1.RegisterOAuthPeerServiceServer(r, &oauth.PeerServer{Authority: a, Keys: s.keys.Ring})
}

// provided is the sign-in with the installation's provider. Without a provider, its methods return 501.
type provided struct {
	deps   Deps
	server *oidc.Server
}

// wireOIDC creates the sign-in with the configured provider. It makes no network call, so the service starts even if
// the provider is down.
func wireOIDC(cfg Config, d Deps, sessions *session.Sessions, public *session.Server, trail *audit.Log) (provided, error) {
	p := provided{deps: d, server: &oidc.Server{Cookies: public}}
	if !cfg.OIDC.Enabled() {
		return p, nil
	}
	networks, err := cfg.Egress.Networks()
	if err != nil {
		return provided{}, err
	}
	sessions.ByProvider = true
	public.Methods.OIDC = &session.Provider{Issuer: cfg.OIDC.Issuer, Name: cfg.OIDC.Name}
	p.server.SignIn = &oidc.SignIn{
		Settings: cfg.OIDC, Provider: oidc.NewProvider(cfg.OIDC, egress.New(egress.Options{Networks: networks}), d.Clock),
		Sessions: sessions, Pool: d.Pool, Audit: trail, Clock: d.Clock, IDs: d.IDs, Rand: d.Rand, PublicURL: d.PublicURL,
	}
	p.server.SignIn.Provider.ClientSecret = clientSecret(wireSettings(d, trail))
	return p, nil
}

func (p provided) register(r grpc.ServiceRegistrar) {
	authpeerv1.RegisterOidcPeerServiceServer(r, p.server)
}

// workers returns the loop that deletes unfinished sign-ins.
func (p provided) workers() []process.Worker {
	if p.server.SignIn == nil {
		return nil
	}
	return []process.Worker{{Name: "auth.oidc-sweep", Run: func(ctx context.Context) error {
		return process.Loop(ctx, p.deps.Clock, sweepEvery, sweepJitter, process.Logged(p.deps.Log, "auth.oidc-sweep", p.server.SignIn.Sweep))
	}}}
}

// Retention returns the rules that delete rows at a configured age. The loops that Workers returns delete the counters
// of attempts and other rows that are kept only for minutes.
func (s *Service) Retention() []retention.Rule {
	ended := retention.Days(s.cfg.EndedDays)
	return []retention.Rule{
		{Name: "refresh token", Age: ended, Step: s.sessions.DeleteTokens},
		{Name: "session", Age: ended, Step: s.sessions.DeleteSessions},
		{Name: "grant", Age: ended, Step: s.authority().DeleteGrants},
		{Name: "device code", Age: ended, Step: s.devices().DeleteCodes},
	}
}
