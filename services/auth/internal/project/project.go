// Package project owns what work is grouped by; the rows of other services name a project and ask here
// which one that is.
package project

import (
	"context"
	"errors"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Project is one project.
type Project struct {
	ID   string
	Key  string
	Name string
	// Visibility says who besides the members may read what belongs to it: `team` or `all`.
	Visibility string
}

var errUnknown = errors.New("no such project")

// Find answers the project of that key or id. Keys have no underscore, so none looks like an id.
func Find(ctx context.Context, q pg.Querier, name string) (Project, error) {
	p, err := load(ctx, q, strings.HasPrefix(name, string(id.Project)+"_"), name)
	if errors.Is(err, errUnknown) {
		return Project{}, fault.Absentf("project", name)
	}
	return p, err
}
