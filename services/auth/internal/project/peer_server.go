package project

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// PeerServer implements the ProjectService for other services.
type PeerServer struct {
	authpeerv1.UnimplementedProjectServiceServer

	Pool pg.Querier
}

// GetProject implements ProjectService.
func (s *PeerServer) GetProject(ctx context.Context, in *authpeerv1.GetProjectRequest) (*authpeerv1.Project, error) {
	p, err := Find(ctx, s.Pool, in.GetProject())
	if err != nil {
		return nil, err
	}
	out := &authpeerv1.Project{Id: p.ID, Key: p.Key, Name: p.Name, Visibility: p.Visibility, VisibilityVersion: p.VisibilityVersion, Archived: p.ArchivedAt != nil}
	if p.TeamID != nil {
		out.TeamId = *p.TeamID
	}
	return out, nil
}
