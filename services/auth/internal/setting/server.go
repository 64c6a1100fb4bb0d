package setting

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements SettingService.
type Server struct {
	authv1.UnimplementedSettingServiceServer

	Settings *Settings
}

// ListSettings implements SettingService.
func (s *Server) ListSettings(ctx context.Context, in *authv1.ListSettingsRequest) (*authv1.ListSettingsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	all, err := s.Settings.Current(ctx)
	if err != nil {
		return nil, err
	}
	shown, more := request.CutPage(all[min(p.Offset, len(all)):], p)
	out := &authv1.ListSettingsResponse{}
	for _, c := range shown {
		out.Settings = append(out.Settings, toProto(c))
	}
	return out, request.SetMore(ctx, more)
}

// GetSetting implements SettingService.
func (s *Server) GetSetting(ctx context.Context, in *authv1.GetSettingRequest) (*authv1.Setting, error) {
	c, err := s.Settings.One(ctx, in.GetKey())
	if err != nil {
		return nil, err
	}
	return toProto(c), nil
}

// PutSetting implements SettingService.
func (s *Server) PutSetting(ctx context.Context, in *authv1.PutSettingRequest) (*authv1.Setting, error) {
	c, err := s.Settings.Put(ctx, in.GetKey(), in.GetValue(), int(in.GetVersion()))
	if err != nil {
		return nil, err
	}
	return toProto(c), nil
}

// ListSettingVersions implements SettingService.
func (s *Server) ListSettingVersions(ctx context.Context, in *authv1.ListSettingVersionsRequest) (*authv1.ListSettingVersionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	d, err := s.Settings.definition(in.GetKey())
	if err != nil {
		return nil, err
	}
	all, err := s.Settings.store.Versions(ctx, s.Settings.Pool, d.Key, p)
	if err != nil {
		return nil, err
	}
	shown, more := request.CutPage(all, p)
	out := &authv1.ListSettingVersionsResponse{}
	for _, v := range shown {
		out.Versions = append(out.Versions, &authv1.SettingVersion{
			Version: int32(v.Number), Value: v.Value, ChangedAt: timestamppb.New(v.ChangedAt), ChangedBy: v.ChangedByName,
		})
	}
	return out, request.SetMore(ctx, more)
}

func toProto(c Current) *authv1.Setting {
	out := &authv1.Setting{
		Key: c.Key, Type: string(c.Type), Description: c.Description, Value: c.InForce(), Default: c.Default, Set: c.Set,
		Version: int32(c.Number),
	}
	if c.Number > 0 {
		out.ChangedAt, out.ChangedBy = timestamppb.New(c.ChangedAt), &c.ChangedByName
	}
	return out
}
