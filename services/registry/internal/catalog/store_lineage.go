package catalog

import (
	"context"
	"fmt"
	"strconv"
	"time"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// owners reads the objects of a lineage from this service and from the jobs service.
type owners struct {
	*LineageServer

	scope authn.Scope
}

// peerLimit is the time limit of one call to the jobs service.
const peerLimit = 5 * time.Second

func revisionPlace(deploymentID string, number int32) place {
	return place{kindRevision, deploymentID + "@" + strconv.Itoa(int(number))}
}

func (o *owners) read(ctx context.Context, places []place) ([]*node, error) {
	refs := map[string][]string{}
	for _, p := range places {
		refs[p.kind] = append(refs[p.kind], p.ref)
	}
	var found []*node
	for kind, of := range map[string]func(context.Context, []string) ([]*node, error){
		kindRun: o.runs, kindDataset: o.datasets, kindModel: o.models, kindRevision: o.revisions,
	} {
		if len(refs[kind]) == 0 {
			continue
		}
		nodes, err := of(ctx, refs[kind])
		if err != nil {
			return nil, err
		}
		found = append(found, nodes...)
	}
	return found, nil
}

// runs returns the runs with these ids, which may be ids of jobs too.
func (o *owners) runs(ctx context.Context, ids []string) ([]*node, error) {
	ctx, cancel := context.WithTimeout(ctx, peerLimit)
	defer cancel()
	out, err := o.Runs.ListLineageRuns(ctx, &jobspeerv1.ListLineageRunsRequest{Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("look up the runs of a lineage: %w", err)
	}
	var nodes []*node
	for _, r := range out.GetRuns() {
		at := place{kindRun, r.GetRunId()}
		n := &node{
			place: at, visible: true, id: r.GetRunId(), name: r.GetName(), project: r.GetProject(), state: r.GetState(),
			digest: r.GetSpecDigest(), jobID: r.GetJobId(), createdAt: r.GetCreatedAt().AsTime(),
		}
		for _, from := range r.GetSources() {
			h := hop{source: place{kindRun, from.GetSource()}, target: at, relation: "derived", detail: from.GetDetail()}
			if _, ok := ref.Parse(ref.Dataset, from.GetSource()); ok {
				h.source.kind, h.relation = kindDataset, "reads"
			} else if _, ok := ref.Parse(ref.Model, from.GetSource()); ok {
				h.source.kind, h.relation = kindModel, "starts_from"
			}
			n.madeFrom = append(n.madeFrom, h)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// row is an object of this service. Source is what it was made from.
type row struct {
	Ref, ID, Name, Version, Project, State, Digest, Source string
	CreatedAt                                              time.Time
}

func (o *owners) datasets(ctx context.Context, refs []string) ([]*node, error) {
	return o.rows(ctx, kindDataset, "", "", `SELECT r.ref, d.id, d.name, v.version, d.project, v.state, v.digest, '' AS source, v.created_at
		FROM (SELECT ref, split_part(ref, '/', 2) AS key, split_part(split_part(ref, '/', 3), '@', 1) AS name, split_part(ref, '@', 2) AS version
			FROM unnest($4::text[]) ref) r
		JOIN (SELECT * FROM dataset WHERE `+access.Visible+`) d ON d.project = r.key AND d.name = r.name
		JOIN dataset_version v ON v.dataset_id = d.id AND v.version = r.version`, refs)
}

func (o *owners) models(ctx context.Context, refs []string) ([]*node, error) {
	return o.rows(ctx, kindModel, kindRun, "registered", `SELECT r.ref, m.id, m.name, v.version::text AS version, m.project,
			CASE WHEN v.status = 'ready' THEN v.lifecycle ELSE v.status END AS state, v.digest, v.run_id AS source, v.created_at
		FROM (SELECT ref, split_part(ref, '/', 2) AS key, split_part(split_part(ref, '/', 3), '@', 1) AS name, split_part(ref, '@', 2) AS version
			FROM unnest($4::text[]) ref) r
		JOIN (SELECT * FROM model WHERE `+access.Visible+` AND deleted_at IS NULL) m ON m.project = r.key AND m.name = r.name
		JOIN model_version v ON v.model_id = m.id AND v.version::text = r.version`, refs)
}

func (o *owners) revisions(ctx context.Context, refs []string) ([]*node, error) {
	return o.rows(ctx, kindRevision, kindModel, "serves", `SELECT r.ref, d.id, d.name, v.number::text AS version, d.project, v.state, '' AS digest,
			CASE WHEN m.deleted_at IS NULL THEN 'mdl/' || m.project || '/' || m.name ELSE m.id END || '@' || v.model_version AS source, v.created_at
		FROM (SELECT ref, split_part(ref, '@', 1) AS id, split_part(ref, '@', 2) AS number FROM unnest($4::text[]) ref) r
		JOIN (SELECT * FROM deployment WHERE `+access.Visible+` AND deleted_at IS NULL) d ON d.id = r.id
		JOIN revision v ON v.deployment_id = d.id AND v.number::text = r.number
		JOIN model m ON m.id = v.model_id`, refs)
}

// rows returns the objects that a statement finds, each made from its source if it has one.
func (o *owners) rows(ctx context.Context, kind, sourceKind, relation, sql string, refs []string) ([]*node, error) {
	found, err := pg.All[row](o.Pool.Query(ctx, sql, access.Args(o.scope, refs)...))
	if err != nil {
		return nil, fmt.Errorf("look up the %ss of a lineage: %w", kind, err)
	}
	var nodes []*node
	for _, r := range found {
		n := &node{
			place: place{kind, r.Ref}, visible: true, id: r.ID, name: r.Name, version: r.Version, project: r.Project, state: r.State,
			digest: r.Digest, createdAt: r.CreatedAt,
		}
		if r.Source != "" {
			n.madeFrom = []hop{{source: place{sourceKind, r.Source}, target: n.place, relation: relation}}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
