package authn

import (
	"context"
	"fmt"
)

// FetchRoles answers every role of a user in projects. It may ask over the network.
type FetchRoles func(ctx context.Context, userID string) ([]ProjectRole, error)

// Whole is the caller with all of his roles. One whose token carries them all is answered as he is and nobody is
// asked; the roles of another one are fetched, as they are now.
func (c *Caller) Whole(ctx context.Context, fetch FetchRoles) (*Caller, error) {
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
