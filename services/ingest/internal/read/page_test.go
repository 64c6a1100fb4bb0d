package read

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const runID = "run_01k00000000000000000000001"

// harness holds the servers, on a fresh database with one run.
type harness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	rows   *run.Store
	store  *groupcommit.Committer
	server *Server
	peer   *PeerServer
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	b := &harness{t: t, pool: pool, rows: &run.Store{Pool: pool, Clock: clock.Real()}}
	b.store = groupcommit.New(pool, clock.Real(), &groupcommit.Quota{}, func([]string) {})
	runs := &run.Runs{Rows: b.rows, FetchOwner: func(_ context.Context, id string, _ bool) (*run.Owner, error) {
		if id != runID {
			return nil, fault.Absentf("run", id)
		}
		return &run.Owner{RunID: runID, JobID: "job_1", OwnerID: "usr_1", ProjectID: "prj_1", Project: "p", Visibility: "private"}, nil
	}}
	_, err = runs.Find(t.Context(), runID)
	require.NoError(t, err)
	gate := run.NewGate()
	b.server = &Server{
		Runs: runs, Progress: b.rows.Progress, Goals: b.rows.Goals, Logs: &logs.Store{Pool: pool, Clock: clock.Real()}, Gate: gate, Metrics: metric.NewStore(pool, gate), Hparams: &run.HParamStore{Pool: pool},
		Validations: &evaluation.ValidationStore{Pool: pool}, Artifacts: &artifact.Store{Pool: pool}, Downloads: &artifact.Downloads{Pool: pool}, Records: &report.RawStore{Pool: pool},
		Hardware: &HardwareStore{Pool: pool}, Scores: &evaluation.ScoreStore{Pool: pool},
	}
	b.peer = &PeerServer{Runs: runs, Store: b.store, Artifacts: b.server.Artifacts}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = b.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *harness) put(write groupcommit.Write) {
	b.t.Helper()
	_, err := b.store.Store(b.t.Context(), groupcommit.Item{RunID: runID, Attempt: 1, Write: write})
	require.NoError(b.t, err)
}

func (b *harness) end(state string) bool {
	b.t.Helper()
	out, err := b.peer.CloseRun(b.t.Context(), &ingestpeerv1.CloseRunRequest{
		RunId: runID, State: state, EndedAt: timestamppb.New(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)),
	})
	require.NoError(b.t, err)
	return out.GetClosed()
}

func lines(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("line %d\n", i)
	}
	return out
}

func point(key string) *decode.Columns {
	c := &decode.Columns{}
	if err := decode.Metrics([]byte(`{"run_id":"r","points":[{"key":"`+key+`","step":1,"value":1,"ts":"2026-11-21T09:00:00Z"}]}`), c); err != nil {
		panic(err)
	}
	return c
}

func TestLogPages_endWithEOF(t *testing.T) {
	t.Parallel()
	b := open(t)
	read := LogPages(b.rows.Progress, b.server.Logs)
	page, err := read(t.Context(), runID, 0)
	require.NoError(t, err)
	require.Empty(t, page.Events)
	require.False(t, page.End, "an open run has no eof")
	b.put(logs.Write(groupcommit.Key{Writer: "w", Seq: 1}, logs.Origin{}, append(lines(followed+3), "open")))
	page, err = read(t.Context(), runID, 0)
	require.NoError(t, err)
	require.Len(t, page.Events, followed)
	require.EqualValues(t, followed, page.Last)
	require.True(t, b.end("failed"))
	require.False(t, b.end("succeeded"), "only the first close takes effect")
	page, err = read(t.Context(), runID, 0)
	require.NoError(t, err)
	require.False(t, page.End, "eof comes only after the last line")
	page, err = read(t.Context(), runID, page.Last)
	require.NoError(t, err)
	require.True(t, page.End)
	require.Len(t, page.Events, 5)
	require.Equal(t, "open", page.Events[3].GetLine().GetText(), "closing the run finishes the unfinished line")
	require.Equal(t, []any{int64(followed + 4), "failed"}, []any{page.Events[4].GetEof().GetSeq(), page.Events[4].GetEof().GetState()})
	page, err = read(t.Context(), runID, followed+4)
	require.NoError(t, err)
	require.True(t, page.End)
	require.Len(t, page.Events, 1, "resuming at the end sends eof again")
}

// A line that is finished while its page is read is sent as a line, not left out of the unfinished ones.
func TestLogPages_lineFinishedMeanwhile(t *testing.T) {
	t.Parallel()
	b := open(t)
	before := func(ctx context.Context, id string) (run.Progress, error) {
		p, err := b.rows.Progress(ctx, id)
		p.LineSeq = 1
		return p, err
	}
	b.put(logs.Write(groupcommit.Key{Writer: "w", Seq: 1}, logs.Origin{}, []string{"10%\n\r100%\nnext"}))
	page, err := LogPages(before, b.server.Logs)(t.Context(), runID, 1)
	require.NoError(t, err)
	require.Empty(t, page.Notes)
	require.Len(t, page.Events, 1)
	require.Equal(t, "100%", page.Events[0].GetLine().GetText())
}

func TestMetricPages_endWithEOF(t *testing.T) {
	t.Parallel()
	b := open(t)
	keys := metric.NewKeys()
	read := MetricPages(b.rows.Progress, b.server.Metrics)
	b.put(metric.Write(keys, point("a")))
	b.put(metric.Write(keys, point("b")))
	page, err := read(t.Context(), runID, 1)
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	require.Equal(t, "b", page.Events[0].GetBatch().GetPoints()[0].GetKey())
	require.False(t, page.End)
	require.True(t, b.end("succeeded"))
	page, err = read(t.Context(), runID, 0)
	require.NoError(t, err)
	require.Len(t, page.Events, 3)
	require.EqualValues(t, 2, page.Events[2].GetEof().GetSeq())
	require.True(t, page.End)
}

func TestPages_reportReadErrors(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := LogPages(b.rows.Progress, b.server.Logs)(t.Context(), "run_none", 0)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	down := errors.New("down")
	progress := func(context.Context, string) (run.Progress, error) { return run.Progress{}, down }
	_, err = LogPages(progress, b.server.Logs)(t.Context(), runID, 0)
	require.ErrorIs(t, err, down)
	_, err = MetricPages(progress, b.server.Metrics)(t.Context(), runID, 0)
	require.ErrorIs(t, err, down)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ahead := func(context.Context, string) (run.Progress, error) { return run.Progress{LineSeq: 5, BatchSeq: 5}, nil }
	_, err = LogPages(ahead, b.server.Logs)(gone, runID, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = MetricPages(ahead, b.server.Metrics)(gone, runID, 0)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLists_hiddenRunLooksAbsent(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.put(logs.Write(groupcommit.Key{}, logs.Origin{}, []string{"secret\n"}))
	s := b.server
	lists := map[string]func(ctx context.Context, id string, limit *int32) error{
		"logs": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListLogs(ctx, &ingestv1.ListLogsRequest{Id: id, Limit: limit})
			return err
		},
		"last lines": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListLogs(ctx, &ingestv1.ListLogsRequest{Id: id, Limit: limit, Tail: new(true)})
			return err
		},
		"search": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: id, Limit: limit})
			return err
		},
		"metrics": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListMetrics(ctx, &ingestv1.ListMetricsRequest{Id: id, Limit: limit})
			return err
		},
		"validations": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListValidations(ctx, &ingestv1.ListValidationsRequest{Id: id, Limit: limit})
			return err
		},
		"samples": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListSamples(ctx, &ingestv1.ListSamplesRequest{Id: id, Limit: limit})
			return err
		},
		"artifacts": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListArtifacts(ctx, &ingestv1.ListArtifactsRequest{Id: id, Limit: limit})
			return err
		},
		"downloads": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListRunDownloads(ctx, &ingestv1.ListRunDownloadsRequest{Id: id, Limit: limit})
			return err
		},
		"nodes": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListNodes(ctx, &ingestv1.ListNodesRequest{Id: id, Limit: limit})
			return err
		},
		"hardware": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListHardware(ctx, &ingestv1.ListHardwareRequest{Id: id, Limit: limit})
			return err
		},
		"benchmarks": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListBenchmarks(ctx, &ingestv1.ListBenchmarksRequest{Id: id, Limit: limit})
			return err
		},
		"history": func(ctx context.Context, id string, limit *int32) error {
			_, err := s.ListHparamChanges(ctx, &ingestv1.ListHparamChangesRequest{Id: id, Limit: limit})
			return err
		},
		"environment": func(ctx context.Context, id string, _ *int32) error {
			_, err := s.GetEnvironment(ctx, &ingestv1.GetEnvironmentRequest{Id: id})
			return err
		},
		"hparams": func(ctx context.Context, id string, _ *int32) error {
			_, err := s.GetHparams(ctx, &ingestv1.GetHparamsRequest{Id: id})
			return err
		},
	}
	owner := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	stranger := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleOperator})
	absent := runID[:len(runID)-1] + "2"
	for name, list := range lists {
		require.NoError(t, list(owner, runID, nil), name)
		hidden, none := list(stranger, runID, nil), list(stranger, absent, nil)
		require.True(t, fault.Is(hidden, fault.Absent) && fault.Is(none, fault.Absent), "%s: %v, %v", name, hidden, none)
		require.Equal(t, "no such run: "+runID, fault.From(hidden).Text(), name)
		require.Equal(t, "no such run: "+absent, fault.From(none).Text(), "%s: a hidden run gets the same message as a missing one", name)
		require.True(t, fault.Is(list(owner, "run_x", nil), fault.Invalid), name)
		for _, limit := range []int32{0, -1, 501} {
			if name != "hparams" && name != "environment" {
				err := list(owner, runID, &limit)
				require.True(t, fault.Is(err, fault.Invalid), "%s: %d: %v", name, limit, err)
				require.Equal(t, []any{"limit"}, fault.From(err).Fields[0].Loc, "%s: %d", name, limit)
			}
		}
	}
}

func TestListLogs_acrossRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	for i := range 40 {
		b.put(logs.Write(groupcommit.Key{}, logs.Origin{}, []string{fmt.Sprintf("%d a\n%d b\n", i, i)}))
	}
	owner := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	for _, c := range []struct{ limit, offset, first, lines int32 }{
		{500, 0, 1, 80}, {79, 1, 2, 79}, {500, 79, 80, 1}, {500, 80, 0, 0}, {500, 100_000, 0, 0}, {80, 0, 1, 80},
	} {
		out, err := b.server.ListLogs(owner, &ingestv1.ListLogsRequest{Id: runID, Limit: &c.limit, Offset: &c.offset})
		require.NoError(t, err)
		require.Len(t, out.GetLines(), int(c.lines), "%+v", c)
		for i, l := range out.GetLines() {
			require.EqualValues(t, int(c.first)+i, l.GetSeq())
			require.Equal(t, fmt.Sprintf("%d %c", (l.GetSeq()-1)/2, 'a'+rune((l.GetSeq()-1)%2)), l.GetText())
		}
	}
}

func TestCloseRun_runWithoutReports(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.True(t, b.end("stopped"))
	var ended time.Time
	var state string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT ended_at, state FROM run`).Scan(&ended, &state))
	require.Equal(t, "stopped", state)
	require.True(t, ended.Equal(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)))
	_, err := b.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: "run_none"})
	require.True(t, fault.Is(err, fault.Absent))
	_, err = b.peer.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: runID, ArtifactId: "art_none"})
	require.True(t, fault.Is(err, fault.Absent))
}
