package auth

import (
	"context"

	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/rewrap"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/llm"
	"github.com/signalbox-dev/signalbox/services/auth/internal/maintenance"
	"github.com/signalbox-dev/signalbox/services/auth/internal/setting"
	"github.com/signalbox-dev/signalbox/services/auth/internal/trail"
)

// wireSettings makes the settings that change without a restart.
func wireSettings(d Deps, trail *audit.Log) *setting.Settings {
	return &setting.Settings{Pool: d.Pool, Keyring: d.Keyring, Audit: trail, Clock: d.Clock, Known: setting.Known()}
}

// clientSecret reads the secret of this installation at its OpenID provider.
func clientSecret(s *setting.Settings) func(context.Context) (secret.String, error) {
	return func(ctx context.Context) (secret.String, error) { return s.Reveal(ctx, setting.OIDCClientSecret) }
}

// registerSettings puts the settings on a server, and AuthService with what they tell everybody.
func (s *Service) registerSettings(r grpc.ServiceRegistrar, public authv1.AuthServiceServer) {
	authv1.RegisterSettingServiceServer(r, &setting.Server{Settings: s.settings})
	told := maintenance.ConfigServer{AuthServiceServer: public, Desk: s.mode}
	authv1.RegisterAuthServiceServer(r, setting.ConfigServer{AuthServiceServer: told, Settings: s.settings})
	authv1.RegisterMaintenanceServiceServer(r, &maintenance.Server{Desk: s.mode})
	authv1.RegisterAgentServiceServer(r, &llm.Server{Desk: s.agent})
}

// wireMaintenance makes the mode of the installation.
func wireMaintenance(d Deps, trail *audit.Log) *maintenance.Desk {
	return &maintenance.Desk{Pool: d.Pool, Audit: trail, Events: event.NewLog(d.Clock, d.IDs, Name), Clock: d.Clock}
}

// wireAgent makes the self-check of the diagnosis agent's model. It stands beside the settings, so that the
// key leaves neither this service nor its schema.
func wireAgent(cfg Config, d Deps, s *setting.Settings, trail *audit.Log) (*llm.Desk, error) {
	networks, err := cfg.Egress.Networks()
	if err != nil {
		return nil, err
	}
	return &llm.Desk{
		Settings: agentSettings(s), Call: llm.Caller{Client: llm.Client(networks), Rand: d.Rand},
		Turn: llm.Turn{Pool: d.Pool, Clock: d.Clock}, Pool: d.Pool, Audit: trail, IDs: d.IDs,
	}, nil
}

// agentSettings reads what the diagnosis agent's model is called by.
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

// Sealed are the columns whose values are under the keyring.
func (s *Service) Sealed() []rewrap.Column {
	return []rewrap.Column{{Table: "signing_key", Name: "sealed", Key: "kid"}, setting.Sealed()}
}

// registerTrail puts the merged audit on a server: auth's own part without a hop, the others' by their peers.
func (s *Service) registerTrail(r grpc.ServiceRegistrar) {
	t := &trail.Trail{Names: append([]string{Name}, PeerNames()...), Sources: map[string]trail.Source{
		Name: trail.Peer{Client: s.deps.Audit.Client()},
	}}
	for _, name := range PeerNames() {
		t.Sources[name] = trail.Peer{Client: commonpeerv1.NewAuditPeerServiceClient(s.deps.Peers[name])}
	}
	authv1.RegisterAuditServiceServer(r, &trail.Server{Trail: t})
}
