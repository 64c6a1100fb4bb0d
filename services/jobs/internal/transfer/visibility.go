package transfer

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
)

// SetProjectVisibility applies a project's visibility to its jobs and runs.
func (s *Server) SetProjectVisibility(
	ctx context.Context, in *commonpeerv1.SetProjectVisibilityRequest,
) (*commonpeerv1.SetProjectVisibilityResponse, error) {
	rows := &access.VisibilityRows{Pool: s.Owners.Pool, Tables: []string{kindJob, kindRun}}
	version, err := rows.Set(ctx, access.VisibilityChange{
		ProjectID: in.GetProjectId(), Visibility: in.GetVisibility(), Version: in.GetVersion(),
	})
	if err != nil {
		return nil, err
	}
	return &commonpeerv1.SetProjectVisibilityResponse{Version: version}, nil
}
