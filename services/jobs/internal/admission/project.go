package admission

import (
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkProject allows submissions to the default project and to projects where the caller has the role that the
// method requires. Archived projects accept none.
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
