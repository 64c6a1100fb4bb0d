package snapshot

import (
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// deploymentToProto converts a deployment. The map promoted contains the promoted revisions by their ids.
func deploymentToProto(d *deployment.Deployment, promoted map[string]*revision.Revision) *registrypeerv1.ServedDeployment {
	out := &registrypeerv1.ServedDeployment{
		Id: d.ID, Suspended: d.State == deployment.StateSuspended, OwnerId: d.UserID, ProjectId: d.ProjectID, Visibility: d.Visibility,
		Cut: d.Cut(),
	}
	if d.PromotedID != nil {
		out.Promoted = revisionToProto(promoted[*d.PromotedID])
	}
	return out
}

func revisionToProto(r *revision.Revision) *registrypeerv1.ServedRevision {
	if r == nil {
		return nil
	}
	out := &registrypeerv1.ServedRevision{Id: r.ID, Number: r.Number, Ready: r.State == revision.Ready, Task: r.Plan.Task}
	if len(r.Plan.ServedNames) > 0 {
		out.Model = r.Plan.ServedNames[0]
	}
	if r.Reason != nil {
		out.Reason = r.Reason.Short()
	}
	if out.GetReady() && r.Engine.Address != "" {
		out.Replicas = []*registrypeerv1.ServedReplica{revision.ReplicaToProto(r)}
	}
	return out
}
