// Package project owns what work is grouped by; the rows of other services name a project and ask here
// which one that is.
package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Server answers ProjectService.
type Server struct {
	authpeerv1.UnimplementedProjectServiceServer

	Pool *pgxpool.Pool
}

// GetProject implements ProjectService.
func (s *Server) GetProject(ctx context.Context, in *authpeerv1.GetProjectRequest) (*authpeerv1.Project, error) {
	column := "key"
	if strings.HasPrefix(in.GetProject(), string(id.Project)+"_") {
		column = "id"
	}
	p := &authpeerv1.Project{}
	err := s.Pool.QueryRow(ctx, `SELECT id, key, name, visibility FROM project WHERE `+column+` = $1`, in.GetProject()).
		Scan(&p.Id, &p.Key, &p.Name, &p.Visibility)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("project", in.GetProject())
	}
	if err != nil {
		return nil, fmt.Errorf("load the project: %w", err)
	}
	return p, nil
}
