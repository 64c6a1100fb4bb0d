package auth

import (
	"context"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/auth/internal/oidc"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// provided is the sign-in by the installation's provider; without one its methods answer 501.
type provided struct {
	deps   Deps
	server *oidc.Server
}

// wireOIDC makes the sign-in by the provider of the settings. It calls nobody: a provider that is down keeps
// nothing from starting.
func wireOIDC(cfg Config, d Deps, sessions *session.Sessions, public *session.Server, trail *audit.Log) (provided, error) {
	p := provided{deps: d, server: &oidc.Server{Cookies: public}}
	if !cfg.OIDC.Enabled() {
		return p, nil
	}
	networks, err := cfg.Egress.Networks()
	if err != nil {
		return provided{}, err
	}
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

// workers forget sign-ins that nobody finished.
func (p provided) workers() []run.Worker {
	if p.server.SignIn == nil {
		return nil
	}
	return []run.Worker{{Name: "auth.oidc-sweep", Run: func(ctx context.Context) error {
		return run.Loop(ctx, p.deps.Clock, sweepEvery, sweepJitter, run.Logged(p.deps.Log, "auth.oidc-sweep", p.server.SignIn.Sweep))
	}}}
}
