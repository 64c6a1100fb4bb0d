package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// origin is a run with what it was made from.
type origin struct {
	*Run

	sources []source
}

// source is something that a run was made from: a run id, or the reference of a dataset version or model version.
type source struct{ ref, detail string }

// origins returns the runs with these ids, or of the jobs with these ids, that are within the scope.
func (Store) origins(ctx context.Context, q pg.Querier, scope authn.Scope, ids []string) ([]origin, error) {
	runs, err := pg.All[Run](q.Query(ctx, `SELECT `+shownColumns+`, NULL::text AS notes FROM run WHERE `+access.Visible+`
		AND (id = ANY($4) OR job_id = ANY($4)) ORDER BY id`, access.Args(scope, ids)...))
	if err != nil {
		return nil, fmt.Errorf("load runs with their origins: %w", err)
	}
	found := make([]origin, len(runs))
	for i, r := range runs {
		found[i].Run = r
		if found[i].sources, err = sourcesOf(r); err != nil {
			return nil, fmt.Errorf("read the origins of run %s: %w", r.ID, err)
		}
	}
	return found, nil
}

func sourcesOf(r *Run) ([]source, error) {
	inputs, err := inputsOf(r)
	if err != nil {
		return nil, err
	}
	var sources []source
	for _, name := range slices.Sorted(maps.Keys(inputs.Datasets)) {
		sources = append(sources, source{inputs.Datasets[name], name})
	}
	if inputs.Model != "" {
		sources = append(sources, source{inputs.Model, ""})
	}
	for _, p := range r.Parents {
		sources = append(sources, source{p.RunID, p.Kind})
	}
	return sources, nil
}

// derived is a run that was made from a source.
type derived struct{ Source, RunID, Detail string }

// derivedFrom returns the newest runs that were made from each source, whether or not the caller may read them. limit
// bounds the runs of one source.
func (Store) derivedFrom(ctx context.Context, q pg.Querier, sources []string, limit int) ([]*derived, error) {
	of := func(kind string) []string {
		chosen := []string{}
		for _, s := range sources {
			if strings.HasPrefix(s, kind) {
				chosen = append(chosen, s)
			}
		}
		return chosen
	}
	found, err := pg.All[derived](q.Query(ctx, `
		SELECT s.source, r.run_id, r.detail FROM unnest($1::text[]) s(source) CROSS JOIN LATERAL (
			SELECT id AS run_id, coalesce((SELECT min(p ->> 'kind') FROM jsonb_array_elements(parents) p WHERE p ->> 'run_id' = s.source), '') AS detail
			FROM run WHERE parents @> jsonb_build_array(jsonb_build_object('run_id', s.source)) ORDER BY created_at DESC, id DESC LIMIT $4) r
		UNION ALL
		SELECT s.source, r.run_id, r.detail FROM unnest($2::text[]) s(source) CROSS JOIN LATERAL (
			SELECT id AS run_id, coalesce((SELECT min(b.key) FROM json_each_text(bindings -> 'datasets') b WHERE b.value = s.source), '') AS detail
			FROM run WHERE jsonb_path_query_array(bindings::jsonb, '$.datasets.*') @> jsonb_build_array(s.source)
			ORDER BY created_at DESC, id DESC LIMIT $4) r
		UNION ALL
		SELECT s.source, r.run_id, '' FROM unnest($3::text[]) s(source) CROSS JOIN LATERAL (
			SELECT id AS run_id FROM run WHERE bindings ->> 'model' = s.source ORDER BY created_at DESC, id DESC LIMIT $4) r`,
		of("run_"), of("ds/"), of("mdl/"), limit))
	if err != nil {
		return nil, fmt.Errorf("find derived runs: %w", err)
	}
	return found, nil
}
