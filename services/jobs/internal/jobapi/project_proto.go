package jobapi

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
)

// AuthProjects looks up projects in the auth service for the gates.
type AuthProjects struct {
	Client authpeerv1.ProjectServiceClient
}

// Project returns a project by its key, or nil if it does not exist.
func (p *AuthProjects) Project(ctx context.Context, key string) (*admission.ProjectFacts, error) {
	resp, err := p.Client.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: key})
	if fault.Is(err, fault.Absent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &admission.ProjectFacts{
		ID: resp.GetId(), Key: resp.GetKey(), Visibility: resp.GetVisibility(), VisibilityVersion: resp.GetVisibilityVersion(),
		TeamID: resp.GetTeamId(), Archived: resp.GetArchived(),
	}, nil
}
