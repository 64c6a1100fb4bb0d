package setting

import (
	"context"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
)

// ConfigServer is an AuthService whose configuration includes the public settings.
type ConfigServer struct {
	authv1.AuthServiceServer

	Settings *Settings
}

// GetConfig implements AuthService.
func (s ConfigServer) GetConfig(ctx context.Context, in *authv1.GetConfigRequest) (*authv1.AuthConfig, error) {
	out, err := s.AuthServiceServer.GetConfig(ctx, in)
	if err != nil {
		return nil, err
	}
	if out.Installation, err = Get[string](ctx, s.Settings, InstallationName); err != nil {
		return nil, err
	}
	announcement, err := Get[string](ctx, s.Settings, Announcement)
	if err != nil {
		return nil, err
	}
	if announcement != "" {
		out.Announcement = &announcement
	}
	return out, nil
}
