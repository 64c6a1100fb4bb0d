package transfer

import (
	"context"

	"github.com/jackc/pgx/v5"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

// SetProjectVisibility applies a project's visibility to all objects in the project. It returns when every inference
// replica has applied the change, because hidden deployments must no longer be reachable. A repeated call waits again,
// but changes nothing.
func (s *Server) SetProjectVisibility(
	ctx context.Context, in *commonpeerv1.SetProjectVisibilityRequest,
) (*commonpeerv1.SetProjectVisibilityResponse, error) {
	rows := &access.VisibilityRows{Pool: s.Owners.Pool, Changed: func(ctx context.Context, tx pgx.Tx, ids map[string][]string) error {
		_, err := epoch.Bump(ctx, tx, epoch.ChangedDeployments(ids[kindDeployment]...))
		return err
	}}
	for _, k := range kinds() {
		rows.Tables = append(rows.Tables, k.name)
	}
	version, err := rows.Set(ctx, access.VisibilityChange{
		ProjectID: in.GetProjectId(), Visibility: in.GetVisibility(), Version: in.GetVersion(),
	})
	if err != nil {
		return nil, err
	}
	changed, err := epoch.Current(ctx, s.Owners.Pool)
	if err != nil {
		return nil, err
	}
	if err := s.Replicas.Await(ctx, changed); err != nil {
		return nil, err
	}
	return &commonpeerv1.SetProjectVisibilityResponse{Version: version}, nil
}
