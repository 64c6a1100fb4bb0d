package gate

import (
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkProject lets the caller submit where he has what the called method needs, and everyone into the default project; nobody into
// one that is archived.
func checkProject(scope authn.Scope, d *Draft) error {
	p := d.Project
	switch {
	case p == nil, !scope.Sees("", p.ID, p.Visibility):
		d.Project = nil
		return Refuse(Project, "no such project: %s", d.Spec.Project)
	case p.Key != jobspec.DefaultProject && !scope.Grants("", p.ID):
		return refuseAs(fault.Forbidden, Project, "only editors of project %s may submit to it", p.Key)
	case p.Archived:
		return refuseAs(fault.Conflict, Project, "project %s is archived", p.Key)
	}
	return nil
}
