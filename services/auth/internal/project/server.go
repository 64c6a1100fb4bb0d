package project

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Server answers ProjectService.
type Server struct {
	authpeerv1.UnimplementedProjectServiceServer

	Pool pg.Querier
}

// GetProject implements ProjectService.
func (s *Server) GetProject(ctx context.Context, in *authpeerv1.GetProjectRequest) (*authpeerv1.Project, error) {
	p, err := Find(ctx, s.Pool, in.GetProject())
	if err != nil {
		return nil, err
	}
	return &authpeerv1.Project{Id: p.ID, Key: p.Key, Name: p.Name, Visibility: p.Visibility}, nil
}
