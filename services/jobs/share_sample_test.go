package jobs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// sampled makes ingest return three samples and more to follow. The first one is cut.
func (w *harness) sampled() (asked func() *ingestpeerv1.GetRunSamplesRequest) {
	var last *ingestpeerv1.GetRunSamplesRequest
	w.ingest.samples = func(req *ingestpeerv1.GetRunSamplesRequest) *ingestpeerv1.GetRunSamplesResponse {
		last = req
		out := &ingestpeerv1.GetRunSamplesResponse{More: true, Positions: true}
		for i := range int32(3) {
			out.Samples = append(out.Samples, &ingestv1.Sample{
				Id: fmt.Sprintf("7.1.%d.0", 2*i), Step: 7, Index: i, Attempt: 1, User: []byte(`"q"`), Assistant: []byte(`"cut…"`),
			})
		}
		out.Samples[0].Truncated, out.Samples[0].TextNext = true, new(int64(3))
		return out
	}
	return func() *ingestpeerv1.GetRunSamplesRequest { return last }
}

// samples returns the samples of a link, and the position of the next page, or "offset" if it has none.
func (w *harness) samples(req *jobsv1.ListSharedSamplesRequest) (samples []*jobsv1.SharedSample, next string, err error) {
	w.t.Helper()
	var header metadata.MD
	out, err := w.shared().ListSharedSamples(w.as(nobody()), req, grpc.Header(&header))
	if len(header.Get("x-service-more")) > 0 {
		next = "offset"
	}
	if after := header.Get("x-service-after"); len(after) > 0 {
		next = request.NextOf(after[0])
	}
	return out.GetSamples(), next, err
}

func TestListSharedSamples_livePositionsAndCutTexts(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	asked := w.sampled()
	token := w.shareOf([]string{w.submit().GetId()}, all).GetToken()
	got, next, err := w.samples(&jobsv1.ListSharedSamplesRequest{Token: token})
	require.NoError(t, err)
	require.Equal(t, "7.1.4.0", next)
	require.Equal(t, "7.1.0.0", got[0].GetId())
	require.True(t, got[0].GetTruncated())
	require.EqualValues(t, 3, got[0].GetTextNext())
	require.False(t, got[1].GetTruncated())
	require.Nil(t, got[1].TextNext)
	_, _, err = w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, After: new("7.1.0.0"), Sample: new("-7.1.2.0"), TextFrom: new(int64(3))})
	require.NoError(t, err)
	require.Equal(t, []string{"7.1.0.0", "-7.1.2.0"}, []string{asked().GetAfter(), asked().GetSample()})
	require.EqualValues(t, 3, asked().GetTextFrom())
	shared, err := w.shared().GetShared(w.as(nobody()), &jobsv1.GetSharedRequest{Token: token})
	require.NoError(t, err)
	require.Nil(t, shared.GetRuns()[0].MoreSamples)
	for _, bad := range []string{"7", "7.1.1", "7.1.1.01", "7.1.1.99999999999", "x"} {
		_, _, err = w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, After: &bad})
		require.Equal(t, "after", fault.Path(fault.From(err).Fields[0].Loc), bad)
		_, _, err = w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, Sample: &bad})
		require.Equal(t, "sample", fault.Path(fault.From(err).Fields[0].Loc), bad)
	}
}

// While an installation is upgraded, ingest may still ignore positions. A list must not begin again then.
func TestListSharedSamples_ofEarlierIngest(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	w.ingest.samples = func(*ingestpeerv1.GetRunSamplesRequest) *ingestpeerv1.GetRunSamplesResponse {
		return &ingestpeerv1.GetRunSamplesResponse{Samples: []*ingestv1.Sample{{Id: "7.1.0.0", Step: 7}}, More: true}
	}
	token := w.shareOf([]string{w.submit().GetId()}, all).GetToken()
	_, next, err := w.samples(&jobsv1.ListSharedSamplesRequest{Token: token})
	require.NoError(t, err)
	require.Equal(t, "offset", next)
	for _, req := range []*jobsv1.ListSharedSamplesRequest{{After: new("7.1.0.0")}, {Sample: new("7.1.0.0")}, {TextFrom: new(int64(1))}} {
		req.Token = token
		_, _, err = w.samples(req)
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	}
}

// A pinned link states what it lacks.
func TestListSharedSamples_pinned(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	w.sampled()
	pin := func(r *jobsv1.CreateShareRequest) { r.Pinned = true }
	j := w.submit()
	token := w.shareOf([]string{j.GetId()}, all, pin).GetToken()
	shared, err := w.shared().GetShared(w.as(nobody()), &jobsv1.GetSharedRequest{Token: token})
	require.NoError(t, err)
	require.True(t, shared.GetRuns()[0].GetMoreSamples())
	ids := func(req *jobsv1.ListSharedSamplesRequest) (ids []string, next string) {
		req.Token = token
		got, next, err := w.samples(req)
		require.NoError(t, err)
		for _, s := range got {
			require.Equal(t, s.GetIndex() == 0, s.GetTruncated())
			require.Nil(t, s.TextNext, "the rest is not pinned")
			ids = append(ids, s.GetId())
		}
		return ids, next
	}
	first, next := ids(&jobsv1.ListSharedSamplesRequest{Limit: new(int32(1))})
	require.Equal(t, []string{"7.1.0.0"}, first)
	require.Equal(t, "7.1.0.0", next)
	second, next := ids(&jobsv1.ListSharedSamplesRequest{Limit: new(int32(1)), After: &next})
	require.Equal(t, []string{"7.1.2.0"}, second)
	rest, next := ids(&jobsv1.ListSharedSamplesRequest{Limit: new(int32(1)), After: &next})
	require.Equal(t, []string{"7.1.4.0"}, rest)
	require.Empty(t, next)
	between, _ := ids(&jobsv1.ListSharedSamplesRequest{After: new("7.1.1.9")})
	require.Equal(t, []string{"7.1.2.0", "7.1.4.0"}, between, "a position is a value, also without a sample")
	only, _ := ids(&jobsv1.ListSharedSamplesRequest{Sample: new("7.1.2.0")})
	require.Equal(t, []string{"7.1.2.0"}, only)
	_, _, err = w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, TextFrom: new(int64(3))})
	require.Equal(t, "text_from", fault.Path(fault.From(err).Fields[0].Loc))

	// An earlier version pinned samples without ids.
	w.ingest.samples = func(*ingestpeerv1.GetRunSamplesRequest) *ingestpeerv1.GetRunSamplesResponse {
		return &ingestpeerv1.GetRunSamplesResponse{Samples: []*ingestv1.Sample{{Step: 7}, {Step: 7, Index: 1}}}
	}
	token = w.shareOf([]string{j.GetId()}, all, pin).GetToken()
	_, next, err = w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, Limit: new(int32(1))})
	require.NoError(t, err)
	got, _, err := w.samples(&jobsv1.ListSharedSamplesRequest{Token: token, After: &next})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.EqualValues(t, 1, got[0].GetIndex())
}
