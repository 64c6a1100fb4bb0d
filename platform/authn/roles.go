package authn

import (
	"context"
	"fmt"
)

// FetchRoles returns all of a user's project roles. It may use the network.
type FetchRoles func(ctx context.Context, userID string) ([]ProjectRole, error)

// WithAllRoles returns the caller with all its project roles. If the roles of c were cut, the result is a copy with the
// current roles that the function fetch returns. Otherwise, or if fetch is nil, the result is c itself.
func (c *Caller) WithAllRoles(ctx context.Context, fetch FetchRoles) (*Caller, error) {
	if !c.IsUser() || !c.ProjectsCut || fetch == nil {
		return c, nil
	}
	roles, err := fetch(ctx, c.Subject)
	if err != nil {
		return nil, fmt.Errorf("fetch the caller's roles: %w", err)
	}
	whole := *c
	whole.Projects, whole.ProjectsCut = roles, false
	return &whole, nil
}
