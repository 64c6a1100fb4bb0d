package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// partial returns the lines of a page with the unfinished lines.
func (t *training) partial(in *ingestv1.ListLogsRequest) []string {
	t.r.h.t.Helper()
	in.Id, in.Partial = t.run, new(true)
	out, err := t.r.public.ListLogs(t.r.h.t.Context(), in)
	require.NoError(t.r.h.t, err)
	return seqAndText(out.GetLines())
}

func seqAndText(lines []*ingestv1.LogLine) []string {
	out := []string{}
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%d %s", l.GetSeq(), l.GetText()))
	}
	return out
}

func TestListLogs_partialAtEndOnly(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	require.Empty(t, run.partial(&ingestv1.ListLogsRequest{}))
	run.post("logs", "w:1", `"chunks":["a\nb\nEpoch 1: 10%"]`)
	run.post("logs", "w:2", `"chunks":["\rEpoch 1: 20%"]`)
	limit := int32(1)
	for name, c := range map[string]struct {
		in   *ingestv1.ListLogsRequest
		want []string
	}{
		"first page":       {&ingestv1.ListLogsRequest{Limit: &limit}, []string{"1 a"}},
		"last page":        {&ingestv1.ListLogsRequest{Limit: &limit, After: new(int64(1))}, []string{"2 b", "0 Epoch 1: 20%"}},
		"after everything": {&ingestv1.ListLogsRequest{After: new(int64(2))}, []string{"0 Epoch 1: 20%"}},
		"tail":             {&ingestv1.ListLogsRequest{Limit: &limit, Tail: new(true)}, []string{"2 b", "0 Epoch 1: 20%"}},
		"before":           {&ingestv1.ListLogsRequest{Before: new(int64(2))}, []string{"1 a"}},
	} {
		require.Equal(t, c.want, run.partial(c.in), name)
	}
	require.Equal(t, []string{"1 a", "1 b"}, run.lines(), "without partial, a page has only whole lines")
	run.post("logs", "w:3", `"chunks":["\rEpoch 1: done\n"]`)
	require.Equal(t, []string{"1 a", "2 b", "3 Epoch 1: done"}, run.partial(&ingestv1.ListLogsRequest{}))
}

// All processes of a large training show their progress, and a text without its beginning is marked.
func TestListLogs_partialOfManyWriters(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	const ranks = 40
	for rank := range ranks {
		run.post("logs", fmt.Sprintf("w%d:1", rank), fmt.Sprintf(`"rank":%d,"chunks":["%s"]`, rank, strings.Repeat("x", 1+rank/39*5000)))
	}
	out, err := r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: run.run, Partial: new(true)})
	require.NoError(t, err)
	require.Len(t, out.GetLines(), ranks)
	for i, l := range out.GetLines() {
		require.EqualValues(t, i, l.GetRank())
		require.Equal(t, i == ranks-1, l.GetTruncated())
	}
}

// A follower receives the unfinished lines when they change, and an empty event when none is left. They have the number of
// the last line, so a follower that reconnects continues after that line.
func TestFollowLogs_unfinishedLines(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	stream, err := r.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: run.run})
	require.NoError(t, err)
	next := func() string {
		e, err := stream.Recv()
		require.NoError(t, err)
		switch {
		case e.GetPartial() != nil:
			return fmt.Sprintf("partial %d %q", e.GetPartial().GetSeq(), seqAndText(e.GetPartial().GetLines()))
		case e.GetEof() != nil:
			return fmt.Sprintf("eof %d", e.GetEof().GetSeq())
		}
		return fmt.Sprintf("line %d %s", e.GetLine().GetSeq(), e.GetLine().GetText())
	}
	run.post("logs", "w:1", `"chunks":["a\n10%"]`)
	require.Equal(t, "line 1 a", next())
	require.Equal(t, `partial 1 ["0 10%"]`, next())
	run.post("logs", "w:2", `"chunks":["\r20%"]`)
	require.Equal(t, `partial 1 ["0 20%"]`, next())
	run.post("logs", "w:3", `"chunks":["\r20%"]`) // nothing has changed
	run.post("logs", "v:1", `"chunks":["other"]`)
	require.Equal(t, `partial 1 ["0 other" "0 20%"]`, next())
	run.post("logs", "w:4", `"chunks":["\rdone\n"]`)
	require.Equal(t, "line 2 done", next())
	require.Equal(t, `partial 2 ["0 other"]`, next())
	run.post("logs", "v:2", `"chunks":["\n"]`)
	require.Equal(t, "line 3 other", next())
	require.Equal(t, `partial 3 []`, next())
	run.post("logs", "w:5", `"chunks":["end"]`)
	require.Equal(t, `partial 3 ["0 end"]`, next())
	run.close()
	require.Equal(t, "line 4 end", next())
	require.Equal(t, "eof 4", next())
}

// The unfinished lines of an ended attempt are finished. The run stays open for the next attempt.
func TestCloseRun_ofAttemptFinishesItsLines(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("logs", "w:1", `"chunks":["a\nopen"]`)
	later := *run
	later.attempt(2)
	later.post("logs", "v:2", `"chunks":["newer"]`) // its first request has not arrived
	for range 2 {
		out, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, Attempt: 1})
		require.NoError(t, err)
		require.False(t, out.GetClosed())
		require.Equal(t, []string{"1 a", "2 open", "0 newer"}, run.partial(&ingestv1.ListLogsRequest{}))
	}
	later.post("logs", "v:3", `"chunks":["\n"]`)
	require.Equal(t, []string{"1 a", "1 open", "2 newer"}, run.lines())
}
