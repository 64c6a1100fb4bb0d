package catalog

import (
	"context"
	"fmt"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func (o *owners) madeFrom(ctx context.Context, nodes []*node) ([]hop, error) {
	refs := map[string][]string{}
	var inputs []string // what a run can be made from
	kinds := map[string]string{}
	for _, n := range nodes {
		refs[n.kind], kinds[n.ref] = append(refs[n.kind], n.ref), n.kind
		if n.kind != kindRevision {
			inputs = append(inputs, n.ref)
		}
	}
	hops, err := o.derivedRuns(ctx, inputs, kinds)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		source, target, relation, sql string
	}{
		{kindRun, kindModel, "registered", modelsOfRuns},
		{kindModel, kindRevision, "serves", revisionsOfModels},
	} {
		if len(refs[of.source]) == 0 {
			continue
		}
		found, err := pg.All[made](o.Pool.Query(ctx, of.sql, refs[of.source], maxFanout+1))
		if err != nil {
			return nil, fmt.Errorf("find what was made from a %s: %w", of.source, err)
		}
		for _, m := range found {
			hops = append(hops, hop{source: place{of.source, m.Source}, target: place{of.target, m.Target}, relation: of.relation})
		}
	}
	return hops, nil
}

// made is an object that was made from another one. Both are references.
type made struct{ Source, Target string }

const (
	modelsOfRuns = `SELECT s.source, v.target FROM unnest($1::text[]) s(source) CROSS JOIN LATERAL (
			SELECT CASE WHEN m.deleted_at IS NULL THEN 'mdl/' || m.project || '/' || m.name ELSE m.id END || '@' || v.version AS target
			FROM model_version v JOIN model m ON m.id = v.model_id
			WHERE v.run_id = s.source ORDER BY v.created_at DESC, v.id DESC LIMIT $2) v`
	revisionsOfModels = `SELECT s.source, v.target FROM unnest($1::text[]) s(source)
		JOIN model m ON m.project = split_part(s.source, '/', 2) AND m.name = split_part(split_part(s.source, '/', 3), '@', 1) AND m.deleted_at IS NULL
		CROSS JOIN LATERAL (
			SELECT v.deployment_id || '@' || v.number AS target FROM revision v
			WHERE v.model_id = m.id AND v.model_version::text = split_part(s.source, '@', 2) ORDER BY v.created_at DESC, v.id DESC LIMIT $2) v`
)

// derivedRuns returns the runs that were made from the inputs, whose kinds are given by reference.
func (o *owners) derivedRuns(ctx context.Context, inputs []string, kinds map[string]string) ([]hop, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, peerLimit)
	defer cancel()
	out, err := o.Runs.FindDerivedRuns(ctx, &jobspeerv1.FindDerivedRunsRequest{Sources: inputs, Limit: maxFanout + 1})
	if err != nil {
		return nil, fmt.Errorf("find derived runs: %w", err)
	}
	relations := map[string]string{kindDataset: "reads", kindModel: "starts_from", kindRun: "derived"}
	var hops []hop
	for _, d := range out.GetRuns() {
		kind := kinds[d.GetSource()]
		hops = append(hops, hop{
			source: place{kind, d.GetSource()}, target: place{kindRun, d.GetRunId()}, relation: relations[kind], detail: d.GetDetail(),
		})
	}
	return hops, nil
}
