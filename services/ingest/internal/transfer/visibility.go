package transfer

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
)

// SetProjectVisibility applies the visibility of a project to its runs. It returns the version of the visibility that
// the runs now have, which may be newer than the version in the request.
func (s *Server) SetProjectVisibility(
	ctx context.Context, in *commonpeerv1.SetProjectVisibilityRequest,
) (*commonpeerv1.SetProjectVisibilityResponse, error) {
	rows := &access.VisibilityRows{Pool: s.Pool, Tables: []string{"run"}}
	version, err := rows.Set(ctx, access.VisibilityChange{
		ProjectID: in.GetProjectId(), Visibility: in.GetVisibility(), Version: in.GetVersion(),
	})
	if err != nil {
		return nil, err
	}
	return &commonpeerv1.SetProjectVisibilityResponse{Version: version}, nil
}
