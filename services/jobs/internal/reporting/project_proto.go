package reporting

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Projects looks up projects in the auth service.
type Projects struct {
	Client authpeerv1.ProjectServiceClient
}

// Project implements access.Projects.
func (p Projects) Project(ctx context.Context, key string) (*access.Project, error) {
	found, err := p.Client.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: key})
	if fault.Is(err, fault.Absent) {
		return nil, nil //nolint:nilnil // nil means that there is no such project
	}
	if err != nil {
		return nil, err
	}
	return &access.Project{
		ID: found.GetId(), Key: found.GetKey(), Visibility: found.GetVisibility(), VisibilityVersion: found.GetVisibilityVersion(), Archived: found.GetArchived(),
	}, nil
}
