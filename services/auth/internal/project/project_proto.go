package project

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func toProto(p Project) *authv1.Project {
	out := &authv1.Project{
		Id: p.ID, Key: p.Key, Name: p.Name, Description: p.Description, TeamId: p.TeamID, CreatedAt: timestamppb.New(p.CreatedAt),
		Visibility: authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM,
	}
	if p.Visibility == visibleToAll {
		out.Visibility = authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL
	}
	out.ArchivedAt = request.OptionalTime(p.ArchivedAt)
	return out
}

// visibility converts the requested visibility to its stored form. If the request has none, it returns its second
// argument.
func visibility(requested authv1.ProjectVisibility, otherwise string) string {
	switch requested {
	case authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM:
		return visibleToTeam
	case authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL:
		return visibleToAll
	case authv1.ProjectVisibility_PROJECT_VISIBILITY_UNSPECIFIED:
		return otherwise
	default:
		return otherwise
	}
}

// roles maps the API's role numbers to the stored names.
func roles() map[authv1.ProjectRole]string {
	return map[authv1.ProjectRole]string{
		authv1.ProjectRole_PROJECT_ROLE_VIEWER: "viewer", authv1.ProjectRole_PROJECT_ROLE_EDITOR: "editor",
		authv1.ProjectRole_PROJECT_ROLE_OWNER: roleOwner,
	}
}

func memberToProto(m Member) *authv1.ProjectMember {
	for number, role := range roles() {
		if role == m.Role {
			return &authv1.ProjectMember{Username: m.Username, Role: number}
		}
	}
	return &authv1.ProjectMember{Username: m.Username}
}
