package run_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

func TestLineageServer_ListLineageRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET bindings = '{"datasets": {"train": "ds/p/a@v1", "eval": "ds/p/b@v2"}, "model": "mdl/p/m@3"}',
		parents = jsonb_build_array(jsonb_build_object('kind', 'retry', 'run_id', $2::text)) WHERE id = $1`, first, second)
	s := &run.LineageServer{Pool: h.pool}
	show := func(ids ...string) (out []string) {
		got, err := s.ListLineageRuns(alice(t.Context()), &jobspeerv1.ListLineageRunsRequest{Ids: ids})
		require.NoError(t, err)
		for _, r := range got.GetRuns() {
			line := r.GetRunId() + " " + r.GetJobId() + " " + r.GetState()
			for _, from := range r.GetSources() {
				line += " " + from.GetSource() + "=" + from.GetDetail()
			}
			out = append(out, line)
		}
		return out
	}
	whole := first + " job_" + first + " succeeded ds/p/b@v2=eval ds/p/a@v1=train mdl/p/m@3= " + second + "=retry"
	require.Equal(t, []string{whole, third + " job_" + third + " stopped"}, show(first, second, third, "run_none"),
		"a hidden run and a missing one must be left out")
	require.Equal(t, []string{whole}, show("job_"+first))
	require.Empty(t, show(second))
}

func TestLineageServer_FindDerivedRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET bindings = '{"datasets": {"train": "ds/p/a@v1", "x": "ds/p/a@v1"}, "model": "mdl/p/m@3"}' WHERE id = ANY($1)`,
		[]string{first, second, third})
	h.exec(`UPDATE run SET bindings = '{"datasets": {"train": "ds/p/a@v10"}, "model": "mdl/p/m@30"}',
		parents = jsonb_build_array(jsonb_build_object('kind', 'clone', 'run_id', $2::text)) WHERE id = $1`, fourth, first)
	s := &run.LineageServer{Pool: h.pool}
	find := func(limit int32, sources ...string) (out []string) {
		got, err := s.FindDerivedRuns(alice(t.Context()), &jobspeerv1.FindDerivedRunsRequest{Sources: sources, Limit: limit})
		require.NoError(t, err)
		for _, r := range got.GetRuns() {
			out = append(out, fmt.Sprintf("%s %s %s", r.GetSource(), r.GetRunId()[len(first)-1:], r.GetDetail()))
		}
		return out
	}
	require.Equal(t, []string{"ds/p/a@v1 c train", "ds/p/a@v1 b train"}, find(2, "ds/p/a@v1"), "the newest runs must come first, hidden ones too")
	require.Equal(t, []string{"mdl/p/m@3 c ", "mdl/p/m@3 b ", "mdl/p/m@3 a "}, find(9, "mdl/p/m@3"))
	require.Equal(t, []string{first + " d clone", "ds/p/a@v10 d train", "mdl/p/m@30 d "}, find(9, first, "ds/p/a@v10", "mdl/p/m@30", "nonsense"))
}

// The indexes of the migration must serve the search for derived runs.
func TestLineageServer_FindDerivedRuns_usesIndexes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for condition, index := range map[string]string{
		`parents @> jsonb_build_array(jsonb_build_object('run_id', 'run_1'::text))`:                       "run_parents",
		`jsonb_path_query_array(bindings::jsonb, '$.datasets.*') @> jsonb_build_array('ds/p/a@v1'::text)`: "run_datasets",
		`bindings ->> 'model' = 'mdl/p/m@3'`:                                                              "run_model",
	} {
		tx, err := h.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off`)
		require.NoError(t, err)
		rows, err := tx.Query(t.Context(), `EXPLAIN SELECT id FROM run WHERE `+condition)
		require.NoError(t, err)
		var plan strings.Builder
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan.WriteString(line + "\n")
		}
		require.NoError(t, tx.Rollback(t.Context()))
		require.Contains(t, plan.String(), index)
	}
}
