package read

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// headers accepts the headers of a response.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// readerContext returns the context of a call by which an operator reads.
func readerContext(t *testing.T, user string) context.Context {
	t.Helper()
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(t.Context(), authn.NeedRead), &headers{})
	return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: user, Role: authn.RoleOperator})
}

// listed returns the numbers of the first and the last line, and checks that no line between them is missing.
func listed(t *testing.T, lines []*ingestv1.LogLine) [2]int64 {
	t.Helper()
	if len(lines) == 0 {
		return [2]int64{}
	}
	for i, l := range lines {
		require.Equal(t, lines[0].GetSeq()+int64(i), l.GetSeq())
		require.Equal(t, fmt.Sprintf("line %d", l.GetSeq()-1), l.GetText())
	}
	return [2]int64{lines[0].GetSeq(), lines[len(lines)-1].GetSeq()}
}

func TestServer_ListLogs_positions(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx := readerContext(t, "usr_1")
	list := func(in *ingestv1.ListLogsRequest) [2]int64 {
		in.Id = runID
		out, err := b.server.ListLogs(ctx, in)
		require.NoError(t, err)
		return listed(t, out.GetLines())
	}
	require.Equal(t, [2]int64{}, list(&ingestv1.ListLogsRequest{Tail: new(true)}), "an empty log has no last line")
	rank := int32(3)
	b.put(logs.Write(groupcommit.Key{}, logs.Origin{Rank: &rank}, lines(1200)))
	for name, c := range map[string]struct {
		in   *ingestv1.ListLogsRequest
		want [2]int64
	}{
		"tail":               {&ingestv1.ListLogsRequest{Tail: new(true)}, [2]int64{1151, 1200}},
		"tail of one":        {&ingestv1.ListLogsRequest{Tail: new(true), Limit: new(int32(1))}, [2]int64{1200, 1200}},
		"tail of most":       {&ingestv1.ListLogsRequest{Tail: new(true), Limit: new(int32(500))}, [2]int64{701, 1200}},
		"no tail":            {&ingestv1.ListLogsRequest{Tail: new(false)}, [2]int64{1, 50}},
		"before":             {&ingestv1.ListLogsRequest{Before: new(int64(701)), Limit: new(int32(500))}, [2]int64{201, 700}},
		"before, cut":        {&ingestv1.ListLogsRequest{Before: new(int64(201)), Limit: new(int32(500))}, [2]int64{1, 200}},
		"before the first":   {&ingestv1.ListLogsRequest{Before: new(int64(1))}, [2]int64{}},
		"before, after end":  {&ingestv1.ListLogsRequest{Before: new(int64(1 << 50)), Limit: new(int32(2))}, [2]int64{1199, 1200}},
		"after":              {&ingestv1.ListLogsRequest{After: new(int64(1000)), Limit: new(int32(10))}, [2]int64{1001, 1010}},
		"after with offset":  {&ingestv1.ListLogsRequest{After: new(int64(1000)), Offset: new(int32(20)), Limit: new(int32(10))}, [2]int64{1021, 1030}},
		"after the last":     {&ingestv1.ListLogsRequest{After: new(int64(1200))}, [2]int64{}},
		"after, far too far": {&ingestv1.ListLogsRequest{After: new(int64(1 << 53))}, [2]int64{}},
	} {
		require.Equal(t, c.want, list(c.in), name)
	}
	out, err := b.server.ListLogs(ctx, &ingestv1.ListLogsRequest{Id: runID, Limit: new(int32(1))})
	require.NoError(t, err)
	require.Equal(t, rank, out.GetLines()[0].GetRank())
	for name, in := range map[string]*ingestv1.ListLogsRequest{
		"tail and before":   {Tail: new(true), Before: new(int64(2))},
		"tail and after":    {Tail: new(true), After: new(int64(2))},
		"tail and offset":   {Tail: new(true), Offset: new(int32(0))},
		"before and after":  {Before: new(int64(2)), After: new(int64(2))},
		"before and offset": {Before: new(int64(2)), Offset: new(int32(0))},
	} {
		in.Id = runID
		_, err := b.server.ListLogs(ctx, in)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
}

func TestServer_SearchLogs(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx := readerContext(t, "usr_1")
	b.put(logs.Write(groupcommit.Key{}, logs.Origin{}, lines(1200)))
	out, err := b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Pattern: new(`LINE 1?77$`), IgnoreCase: new(true)})
	require.NoError(t, err)
	require.Len(t, out.GetLines(), 2)
	require.EqualValues(t, 78, out.GetLines()[0].GetSeq())
	require.EqualValues(t, 178, out.GetLines()[1].GetSeq())
	require.EqualValues(t, 1200, out.GetSearched())
	require.True(t, out.GetComplete())
	require.Equal(t, []int64{78, 178}, out.GetMatches())
	out, err = b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Pattern: new(`line 1?77$`), Context: new(int32(2))})
	require.NoError(t, err)
	require.Equal(t, [2]int64{76, 80}, listed(t, out.GetLines()[:5]))
	require.Equal(t, [2]int64{176, 180}, listed(t, out.GetLines()[5:]))
	require.Equal(t, []int64{78, 178}, out.GetMatches())
	require.True(t, out.GetComplete())
	out, err = b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Limit: new(int32(3)), After: new(int64(5))})
	require.NoError(t, err)
	require.Equal(t, [2]int64{6, 8}, listed(t, out.GetLines()))
	require.False(t, out.GetComplete())
	require.EqualValues(t, 8, out.GetSearched())
	out, err = b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Until: timestamppb.New(time.Unix(1, 0))})
	require.NoError(t, err)
	require.Empty(t, out.GetLines())
	require.True(t, out.GetComplete())
	b.put(logs.Write(groupcommit.Key{}, logs.Origin{}, []string{"INFO step 1\nWARNING slow step 2\nplain step 3\nValueError: step 4\n"}))
	for level, want := range map[string]string{"debug": "INFO step 1|WARNING slow step 2|ValueError: step 4", "warning": "WARNING slow step 2|ValueError: step 4", "error": "ValueError: step 4"} {
		out, err := b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Level: new(level), Pattern: new("step")})
		require.NoError(t, err)
		texts := make([]string, 0, len(out.GetLines()))
		for _, l := range out.GetLines() {
			texts = append(texts, l.GetText())
		}
		require.Equal(t, want, strings.Join(texts, "|"), level)
	}

	_, err = b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID, Pattern: new(`(`)})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "pattern")
	_, err = b.server.SearchLogs(readerContext(t, "usr_2"), &ingestv1.SearchLogsRequest{Id: runID})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestServer_SearchLogs_boundedPerUser(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx := readerContext(t, "usr_1")
	var leaves []func()
	for range 2 {
		leave, err := b.server.Gate.Enter(ctx, run.CallerSearcher(ctx))
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := b.server.SearchLogs(ctx, &ingestv1.SearchLogsRequest{Id: runID})
		waiting <- err
	}()
	require.Eventually(t, func() bool { _, n := b.server.Gate.Load(); return n == 1 }, time.Minute, time.Millisecond)
	leave, err := b.server.Gate.Enter(t.Context(), run.ShareReader("other"))
	require.NoError(t, err, "another reader must not wait")
	leave()
	require.Empty(t, waiting)
	for _, leave := range leaves {
		leave()
	}
	require.NoError(t, <-waiting)
}
