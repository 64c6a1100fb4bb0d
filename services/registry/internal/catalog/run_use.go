package catalog

import (
	"context"
	"fmt"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// maxUses is the maximum number of uses that FindRunUses returns.
const maxUses = 100

// use is a version of a model that was registered from a run, or a deployment of such a version.
type use struct {
	Kind, ID, Name string
	Seen           bool
}

// FindRunUses returns the versions of models that were registered from a run, and the deployments with a revision of
// such a version. It counts those that the caller may not see.
func (s *Server) FindRunUses(ctx context.Context, in *registrypeerv1.FindRunUsesRequest) (*registrypeerv1.FindRunUsesResponse, error) {
	uses, err := pg.All[use](s.Pool.Query(ctx, `WITH version AS (
			SELECT m.id, m.name, m.project, v.version, `+access.Visible+` AS seen FROM model_version v JOIN model m ON m.id = v.model_id
			WHERE v.run_id = $4 ORDER BY m.id, v.version LIMIT $5)
		SELECT 'model_version' AS kind, id, 'mdl/' || project || '/' || name || '@' || version AS name, seen FROM version
		UNION ALL SELECT 'deployment', id, name, `+access.Visible+` FROM deployment WHERE deleted_at IS NULL AND id IN (
			SELECT r.deployment_id FROM revision r JOIN version v ON v.id = r.model_id AND v.version = r.model_version LIMIT $5)
		ORDER BY kind DESC, name LIMIT $5`,
		access.Args(authn.CallerOf(ctx).Reads(), in.GetRunId(), maxUses+1)...))
	if err != nil {
		return nil, fmt.Errorf("find what uses run %s: %w", in.GetRunId(), err)
	}
	out := &registrypeerv1.FindRunUsesResponse{}
	for _, u := range uses {
		if !u.Seen || len(out.GetUses()) == maxUses {
			out.Hidden++
			continue
		}
		out.Uses = append(out.Uses, &registrypeerv1.RunUse{Kind: u.Kind, Id: u.ID, Name: u.Name})
	}
	return out, nil
}
