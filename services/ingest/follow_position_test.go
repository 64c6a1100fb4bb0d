package ingest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// first waits for the first event after the given position in the run's logs or metrics and returns the stream's error.
func (r *replica) first(ctx context.Context, kind, run string, after int64) error {
	if kind == "logs" {
		stream, err := r.public.FollowLogs(ctx, &ingestv1.FollowLogsRequest{Id: run, After: after})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	stream, err := r.public.FollowMetrics(ctx, &ingestv1.FollowMetricsRequest{Id: run, After: after})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

func TestFollow_afterBeyondEndRejected(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, silent := r.train(), r.train()
	run.post("logs", "", `"chunks":["one\ntwo\nthree\n"]`)
	run.post("metrics", "", points(point("a", 1, 1)))
	behind := func(kind, id string, after, last int64) {
		err := r.first(t.Context(), kind, id, after)
		f := fault.From(err)
		require.Equal(t, fault.Invalid, f.Kind, "%s after %d: %v", kind, after, err)
		require.Equal(t, []any{"after"}, f.Fields[0].Loc, "the location is only the name of the parameter; the gateway adds query or header")
		require.Equal(t, fault.TypeLessThanEqual, f.Fields[0].Type)
		require.Equal(t, fmt.Sprint(last), fmt.Sprint(f.Fields[0].Ctx["le"]))
	}
	for _, ended := range []bool{false, true} {
		for _, beyond := range []int64{1, 1000, 1 << 62} {
			behind("logs", run.run, 3+beyond, 3)
			behind("metrics", run.run, 1+beyond, 1)
			behind("logs", silent.run, beyond, 0)
			behind("metrics", silent.job, beyond, 0)
		}
		if !ended {
			run.close()
			silent.close()
		}
	}
	require.Equal(t, []string{"eof 3 succeeded"}, follow(t, r, run.run, 3), "following from the last line is valid")
	require.NoError(t, r.first(t.Context(), "metrics", run.run, 1))
}

func TestFollowLogs_fromEndReceivesNextLine(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("logs", "", `"chunks":["one\n"]`)
	stream, err := r.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: run.run, After: 1})
	require.NoError(t, err)
	run.post("logs", "", `"chunks":["two\n"]`)
	e, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 2, e.GetLine().GetSeq())
	require.Equal(t, "two", e.GetLine().GetText())
}
