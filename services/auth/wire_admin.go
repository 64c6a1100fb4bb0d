package auth

import (
	"context"

	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/auditview"
	"github.com/signalbox-dev/signalbox/services/auth/internal/llm"
	"github.com/signalbox-dev/signalbox/services/auth/internal/maintenance"
	"github.com/signalbox-dev/signalbox/services/auth/internal/setting"
)

// wireSettings creates the settings that can change without a restart.
func wireSettings(d Deps, trail *audit.Log) *setting.Settings {
	return &setting.Settings{Pool: d.Pool, Keyring: d.Keyring, Audit: trail, Clock: d.Clock, Known: setting.Known()}
}

// clientSecret returns a function that reads this installation's secret at its OpenID provider.
func clientSecret(s *setting.Settings) func(context.Context) (secret.String, error) {
	return func(ctx context.Context) (secret.String, error) { return s.Reveal(ctx, setting.OIDCClientSecret) }
}

// registerSettings registers the services of settings, maintenance and the test of the diagnosis agent's model. It also
// registers AuthService, because GetConfig returns the public settings.
func (s *Service) registerSettings(r grpc.ServiceRegistrar, public authv1.AuthServiceServer) {
	authv1.RegisterSettingServiceServer(r, &setting.Server{Settings: s.settings})
	configured := maintenance.ConfigServer{AuthServiceServer: public, Switch: s.mode}
	authv1.RegisterAuthServiceServer(r, setting.ConfigServer{AuthServiceServer: configured, Settings: s.settings})
	authv1.RegisterMaintenanceServiceServer(r, &maintenance.Server{Switch: s.mode})
	authv1.RegisterAgentServiceServer(r, &llm.Server{Tester: s.agent})
}

// wireMaintenance creates the switch of the maintenance mode.
func wireMaintenance(d Deps, trail *audit.Log) *maintenance.Switch {
	return &maintenance.Switch{Pool: d.Pool, Audit: trail, Events: event.NewLog(d.Clock, d.IDs, Name), Clock: d.Clock}
}

// wireAgent creates the self-check of the diagnosis agent's model. It is part of auth, next to the settings, so
// that the model's key never leaves this service and its schema.
func wireAgent(cfg Config, d Deps, s *setting.Settings, trail *audit.Log) (*llm.Tester, error) {
	networks, err := cfg.Egress.Networks()
	if err != nil {
		return nil, err
	}
	return &llm.Tester{
		Settings: agentSettings(s), Call: llm.Caller{Client: llm.Client(networks), Rand: d.Rand},
		Turn: llm.Turn{Pool: d.Pool, Clock: d.Clock}, Pool: d.Pool, Audit: trail, IDs: d.IDs,
	}, nil
}

// agentSettings returns a function that reads the settings of the diagnosis agent's model.
func agentSettings(s *setting.Settings) func(context.Context) (llm.Settings, error) {
	return func(ctx context.Context) (out llm.Settings, err error) {
		if out.BaseURL, err = setting.Get[string](ctx, s, setting.AgentBaseURL); err != nil {
			return out, err
		}
		if out.Model, err = setting.Get[string](ctx, s, setting.AgentModel); err != nil {
			return out, err
		}
		out.Key, err = s.Reveal(ctx, setting.AgentKey)
		return out, err
	}
}

// Sealed lists the columns that hold values encrypted with the keyring.
func (s *Service) Sealed() []pg.SealedColumn {
	return []pg.SealedColumn{{Table: "signing_key", Name: "sealed", Key: "kid"}, setting.Sealed()}
}

// registerTrail registers the merged audit on a server. It reads auth's own part locally and the other parts over
// RPC.
func (s *Service) registerTrail(r grpc.ServiceRegistrar) {
	t := &auditview.Trail{Names: append([]string{Name}, PeerNames()...), Sources: map[string]auditview.Source{
		Name: auditview.Peer{Client: s.deps.Audit.Client()},
	}}
	for _, name := range PeerNames() {
		t.Sources[name] = auditview.Peer{Client: commonpeerv1.NewAuditPeerServiceClient(s.deps.Peers[name])}
	}
	authv1.RegisterAuditServiceServer(r, &auditview.Server{Trail: t})
}
