package maintenance

import (
	"context"
	"time"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements MaintenanceService.
type Server struct {
	authv1.UnimplementedMaintenanceServiceServer

	Switch *Switch
}

// GetMaintenance implements MaintenanceService.
func (s *Server) GetMaintenance(ctx context.Context, _ *authv1.GetMaintenanceRequest) (*authv1.Maintenance, error) {
	now, err := s.Switch.Now(ctx)
	if err != nil {
		return nil, err
	}
	return toProto(now), nil
}

// SetMaintenance implements MaintenanceService.
func (s *Server) SetMaintenance(ctx context.Context, in *authv1.SetMaintenanceRequest) (*authv1.Maintenance, error) {
	mode := Off
	if in.GetMode() == authv1.MaintenanceMode_MAINTENANCE_MODE_MAINTENANCE {
		mode = On
	}
	var until *time.Time
	if in.GetUntil() != nil {
		until = new(in.GetUntil().AsTime().Truncate(time.Microsecond))
	}
	now, err := s.Switch.Set(ctx, mode, in.GetMessage(), until)
	if err != nil {
		return nil, err
	}
	return toProto(now), nil
}

func toProto(s State) *authv1.Maintenance {
	out := &authv1.Maintenance{Mode: authv1.MaintenanceMode_MAINTENANCE_MODE_OFF, Until: request.OptionalTime(s.Until), ChangedAt: request.OptionalTime(s.ChangedAt)}
	if s.Mode == On {
		out.Mode, out.Message = authv1.MaintenanceMode_MAINTENANCE_MODE_MAINTENANCE, &s.Message
	}
	if s.ChangedAt != nil {
		out.ChangedBy = &s.ChangedByName
	}
	return out
}

// ConfigServer is an AuthService whose configuration announces maintenance.
type ConfigServer struct {
	authv1.AuthServiceServer

	Switch *Switch
}

// GetConfig implements AuthService.
func (s ConfigServer) GetConfig(ctx context.Context, in *authv1.GetConfigRequest) (*authv1.AuthConfig, error) {
	out, err := s.AuthServiceServer.GetConfig(ctx, in)
	if err != nil {
		return nil, err
	}
	now, err := s.Switch.Now(ctx)
	if err == nil && now.Mode == On {
		out.Maintenance = &authv1.MaintenanceNotice{Message: now.Message, Until: request.OptionalTime(now.Until)}
	}
	return out, err
}
