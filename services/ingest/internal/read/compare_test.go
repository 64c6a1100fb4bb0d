package read

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// compared has a server that compares runs of usr_1 and one hidden run of usr_2.
type compared struct {
	*harness
	server *CompareServer
	keys   *metric.Keys
}

func compareRun(n int) string { return fmt.Sprintf("run_01k000000000000000000001%02d", n) }

const hiddenRun = "run_01k00000000000000000000090"

func openCompared(t *testing.T, runs int) *compared {
	t.Helper()
	b := open(t)
	c := &compared{harness: b, keys: metric.NewKeys()}
	c.server = &CompareServer{
		Runs: b.server.Runs, Goals: b.server.Goals, Metrics: b.server.Metrics, Hparams: b.server.Hparams, Validations: b.server.Validations, Clock: clock.Real(),
	}
	for n := range runs {
		require.NoError(t, b.rows.Upsert(t.Context(), &run.Owner{RunID: compareRun(n), OwnerID: "usr_1", ProjectID: "prj_1", Visibility: "private"}))
	}
	require.NoError(t, b.rows.Upsert(t.Context(), &run.Owner{RunID: hiddenRun, OwnerID: "usr_2", ProjectID: "prj_2", Visibility: "private"}))
	return c
}

func (c *compared) write(runID string, write groupcommit.Write) {
	c.t.Helper()
	_, err := c.store.Store(c.t.Context(), groupcommit.Item{RunID: runID, Attempt: 1, Write: write})
	require.NoError(c.t, err)
}

func (c *compared) params(n int, params ...string) {
	c.t.Helper()
	var list []report.Param
	for i := 0; i < len(params); i += 2 {
		list = append(list, report.Param{Key: params[i], Value: []byte(params[i+1])})
	}
	c.write(compareRun(n), run.WriteHParams(list, 0))
}

// series reports one point per step from first to last, whose value is the step times factor.
func (c *compared) series(n int, key string, first, last int, factor float64) {
	c.t.Helper()
	var points []string
	for step := first; step <= last; step++ {
		points = append(points, fmt.Sprintf(`{"key":%q,"step":%d,"value":%g,"ts":"2026-11-21T%02d:%02d:%02dZ"}`, key, step, float64(step)*factor, 9+n, step/60%60, step%60))
	}
	columns := &decode.Columns{}
	require.NoError(c.t, decode.Metrics([]byte(`{"run_id":"r","points":[`+strings.Join(points, ",")+`]}`), columns))
	c.write(compareRun(n), metric.Write(c.keys, columns))
}

func (c *compared) validate(n int, step int64, samples ...report.Sample) {
	c.t.Helper()
	c.write(compareRun(n), evaluation.WriteValidation(&report.Validation{Step: step, Total: 1, Samples: samples}))
}

func (c *compared) compare(in *ingestv1.CompareRunsRequest) *ingestv1.RunComparison {
	c.t.Helper()
	out, err := c.server.CompareRuns(reader(c.t.Context()), in)
	require.NoError(c.t, err)
	return out
}

func reader(ctx context.Context) context.Context {
	return authn.NewContext(authn.WithNeed(ctx, authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
}

// A hidden run and a run that does not exist look the same.
func TestCompareServer_missing(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 2)
	absent := "run_01k00000000000000000000099"
	out := c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{hiddenRun, compareRun(1), absent, compareRun(0)}, Points: new(int32(5)), Prompts: new(int32(1))})
	require.Equal(t, []string{compareRun(1), compareRun(0)}, out.GetRunIds())
	require.Equal(t, []string{hiddenRun, absent}, out.GetMissing())
	out = c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{hiddenRun}})
	require.Empty(t, out.GetRunIds())
	require.NotNil(t, out.GetAsOf())
	for _, name := range []string{"job_01k00000000000000000000001", "x"} {
		_, err := c.server.CompareRuns(reader(t.Context()), &ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0), name}})
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
		require.Equal(t, []any{"run_ids", 1}, fault.From(err).Fields[0].Loc)
	}
}

func TestCompareServer_hparams(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 2)
	long := `"` + strings.Repeat("é", 5000) + `"`
	c.params(0, "same", "1", "lr", "0.1", "only", `"a"`, "text", long)
	c.params(1, "same", "1", "lr", "0.2", "text", `"short"`)
	out := c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0), compareRun(1)}})
	var keys []string
	for _, h := range out.GetHparams() {
		keys = append(keys, h.GetKey())
	}
	require.Equal(t, []string{"lr", "only", "text"}, keys, "what is the same in all runs must be left out")
	require.JSONEq(t, `{"`+compareRun(0)+`":0.1,"`+compareRun(1)+`":0.2}`, string(out.GetHparams()[0].GetValues()))
	require.JSONEq(t, `{"`+compareRun(0)+`":"a"}`, string(out.GetHparams()[1].GetValues()))
	require.Less(t, len(out.GetHparams()[2].GetValues()), 9000)
	require.Contains(t, string(out.GetHparams()[2].GetValues()), "é…")
	require.False(t, out.GetMoreHparams())
	require.Empty(t, c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0)}}).GetHparams(), "one run differs from none")

	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("p%03d", i), `"`+strings.Repeat("x", 3000)+`"`)
	}
	c.params(0, many[:400]...)
	out = c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0), compareRun(1)}})
	require.Len(t, out.GetHparams(), maxDiffering)
	require.True(t, out.GetMoreHparams())
	found, more, err := c.server.Hparams.Differing(t.Context(), []string{compareRun(0), compareRun(1)}, 200, 10_000)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, found, 4, "lr, only, p000 and p001 have less than 10,000 bytes")
}
