package owner

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/visibility"
)

// SetProjectVisibility applies the visibility of a project to its runs.
func (s *Server) SetProjectVisibility(
	ctx context.Context, in *commonpeerv1.SetProjectVisibilityRequest,
) (*commonpeerv1.SetProjectVisibilityResponse, error) {
	rows := &visibility.Rows{Pool: s.Pool, Tables: []string{"run"}}
	version, err := rows.Set(ctx, visibility.Change{
		ProjectID: in.GetProjectId(), Visibility: in.GetVisibility(), Version: in.GetVersion(),
	})
	if err != nil {
		return nil, err
	}
	return &commonpeerv1.SetProjectVisibilityResponse{Version: version}, nil
}
