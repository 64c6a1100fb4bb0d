package authn

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// CodeProjectArchived is the error code for a change of something that belongs to an archived project.
const CodeProjectArchived = "project_archived"

// ProjectArchived returns the 409 error for a change in an archived project. name is the project's key or id.
func ProjectArchived(name string) *fault.Error {
	return fault.New(fault.Conflict, CodeProjectArchived, "project %s is archived; unarchive it first", name)
}

// FetchArchived reports whether a project is archived. It may use the network.
type FetchArchived func(ctx context.Context, projectID string) (bool, error)

type archivedKey struct{}

// WithArchived returns a context whose scopes reject changes in archived projects (see Scope.Require). The function
// fetch may be nil.
func WithArchived(ctx context.Context, fetch FetchArchived) context.Context {
	if fetch == nil {
		return ctx
	}
	return context.WithValue(ctx, archivedKey{}, fetch)
}

// requireOpen returns a 409 error if the method changes something and the project is archived.
func (s Scope) requireOpen(project string) error {
	if s.need == NeedRead || project == "" || s.archived == nil {
		return nil
	}
	archived, err := s.archived(project)
	if err != nil {
		return fmt.Errorf("look up project %s: %w", project, err)
	}
	if archived {
		return ProjectArchived(project)
	}
	return nil
}
