package admission

import (
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkProject allows submissions to the default project and to projects where the caller has the role that the method
// requires. Archived projects accept no jobs. A priority above the default needs the right to manage the project.
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
	case d.Spec.Priority > jobspec.DefaultPriority && !d.Caller.CanManageProject(p.ID):
		return refuseAs(fault.Forbidden, Project, "priority %d is above the default of %d; only owners of project %s and admins may request it",
			d.Spec.Priority, jobspec.DefaultPriority, p.Key)
	}
	return nil
}
