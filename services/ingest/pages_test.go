package ingest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// nextOf returns the position of the link to the next page, or "" if there is no such link.
func nextOf(header metadata.MD) string {
	if after := header.Get("x-service-after"); len(after) > 0 && header.Get("x-service-more")[0] == "true" {
		return after[0]
	}
	return ""
}

// The links of a log lead to its last line, also past the highest offset.
func TestListLogs_linksReachLastLine(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	const lines = 101_200
	for n := 0; n < lines; n += 2000 {
		var chunk strings.Builder
		for i := n; i < min(n+2000, lines); i++ {
			fmt.Fprintf(&chunk, `%d\n`, i+1)
		}
		run.post("logs", "", `"chunks":["`+chunk.String()+`"]`)
	}
	seen := int64(0)
	in := &ingestv1.ListLogsRequest{Id: run.run, Limit: new(int32(500)), Offset: new(int32(0))}
	for {
		var header metadata.MD
		out, err := r.public.ListLogs(t.Context(), in, grpc.Header(&header))
		require.NoError(t, err)
		for _, l := range out.GetLines() {
			seen++
			if l.GetSeq() != seen || l.GetText() != strconv.FormatInt(seen, 10) {
				require.Fail(t, "a line is missing or shown twice", "%d %d %q", seen, l.GetSeq(), l.GetText())
			}
		}
		next := nextOf(header)
		if next == "" {
			break
		}
		after, err := strconv.ParseInt(next, 10, 64)
		require.NoError(t, err)
		in = &ingestv1.ListLogsRequest{Id: run.run, Limit: new(int32(500)), After: &after}
		if seen == 500 {
			run.post("logs", "", `"chunks":["`+strconv.Itoa(lines+1)+`\n"]`)
		}
	}
	require.EqualValues(t, lines+1, seen, "also a line that was added meanwhile")
}

// Chunks arrive in any order, so samples are added before those that were shown.
func TestListSamples_linksWhileChunksArrive(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	chunk := func(step, index int) {
		var samples []string
		for i := range 4 {
			samples = append(samples, fmt.Sprintf(`{"user":"%d/%d/%d"}`, step, index, i))
		}
		run.post("validation", "", fmt.Sprintf(`"step":%d,"total_chunks":9,"chunk_index":%d,"samples":[%s]`, step, index, strings.Join(samples, ",")))
	}
	for _, index := range []int{2, 4, 6} {
		chunk(1, index)
		chunk(2, index)
	}
	var seen []string
	in := &ingestv1.ListSamplesRequest{Id: run.run, FromStep: new(int64(0)), Limit: new(int32(3))}
	for n := 0; ; n++ {
		var header metadata.MD
		out, err := r.public.ListSamples(t.Context(), in, grpc.Header(&header))
		require.NoError(t, err)
		for _, s := range out.GetSamples() {
			seen = append(seen, string(s.GetUser()))
			in.After = new(s.GetId())
		}
		if next := nextOf(header); next == "" {
			break
		} else {
			require.Equal(t, next, in.GetAfter())
		}
		if n == 2 {
			chunk(1, 0)
			chunk(1, 8)
		}
	}
	var want []string
	for _, at := range [][2]int{{1, 2}, {1, 4}, {1, 6}, {1, 8}, {2, 2}, {2, 4}, {2, 6}} {
		for i := range 4 {
			want = append(want, fmt.Sprintf(`"%d/%d/%d"`, at[0], at[1], i))
		}
	}
	require.Equal(t, want, seen, "no sample is shown twice, and those after the position are shown")
	for _, bad := range []string{"1", "1.1.1", "1.1.1.1.1", "a.1.1.1", "1.1.1.01", " 1.1.1.1", "1.1.1.99999999999"} {
		_, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, After: &bad})
		require.Error(t, err, bad)
	}
	none, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, FromStep: new(int64(0)), After: new("1.7.3.3")})
	require.NoError(t, err)
	require.Len(t, none.GetSamples(), 12, "a position without a sample is a position like any other")
}

// A round that is reported while the last one is listed does not end the list.
func TestListSamples_linksStayInRound(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	const samples = 10
	round := func(step int) {
		var all []string
		for i := range samples {
			all = append(all, fmt.Sprintf(`{"user":"%d/%d","reward":1}`, step, i))
		}
		run.post("validation", "", fmt.Sprintf(`"step":%d,"total_chunks":1,"chunk_index":0,"samples":[%s]`, step, strings.Join(all, ",")))
	}
	for i, in := range []*ingestv1.ListSamplesRequest{{}, {MinReward: new(0.5)}} {
		step := 5 + 2*i
		round(step)
		in.Id, in.Limit = run.run, new(int32(2))
		var seen, want []string
		for {
			var header metadata.MD
			out, err := r.public.ListSamples(t.Context(), in, grpc.Header(&header))
			require.NoError(t, err)
			for _, s := range out.GetSamples() {
				seen = append(seen, string(s.GetUser()))
			}
			if len(seen) == 2 {
				round(step + 1)
			}
			next := nextOf(header)
			if next == "" {
				break
			}
			in.After = &next
		}
		for n := range samples {
			want = append(want, fmt.Sprintf(`"%d/%d"`, step, n))
		}
		require.Equal(t, want, seen)
	}
}
