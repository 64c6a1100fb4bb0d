package request_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/request"
)

func TestPageNamesTheParameterThatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	n := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		limit, offset *int32
		want          page.Page
		bad           string
	}{
		"nothing asked":     {want: page.Page{Limit: page.DefaultLimit}},
		"the smallest":      {limit: n(1), offset: n(0), want: page.Page{Limit: 1}},
		"the largest":       {limit: n(page.MaxLimit), offset: n(page.MaxOffset), want: page.Page{Limit: page.MaxLimit, Offset: page.MaxOffset}},
		"no rows":           {limit: n(0), bad: "limit"},
		"too many rows":     {limit: n(page.MaxLimit + 1), bad: "limit"},
		"before the first":  {offset: n(-1), bad: "offset"},
		"too far down":      {offset: n(page.MaxOffset + 1), bad: "offset"},
		"both are not good": {limit: n(-3), offset: n(-1), bad: "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := request.Page(c.limit, c.offset)
			if c.bad == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				return
			}
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			require.Contains(t, fault.From(err).Fields[0].Loc, any(c.bad))
		})
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	const good = "job_01jd000000000000000000000a"
	require.NoError(t, request.ID(id.Job, "job_id", good))
	for name, bad := range map[string]string{
		"empty": "", "another kind": "run_01jd000000000000000000000a", "too short": good[:len(good)-1], "too long": good + "a",
		"upper case": "job_01JD000000000000000000000A", "a path": "job_../../../../../etc/passwd0", "too large": "job_81jd000000000000000000000a",
	} {
		err := request.ID(id.Job, "job_id", bad)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.Contains(t, fault.From(err).Fields[0].Loc, any("job_id"), name)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	with := func(pairs ...string) context.Context {
		return metadata.NewIncomingContext(t.Context(), metadata.Pairs(pairs...))
	}
	require.Empty(t, request.IdempotencyKey(t.Context()), "no metadata")
	require.Empty(t, request.IdempotencyKey(with("other", "x")))
	require.Equal(t, "k1", request.IdempotencyKey(with("Idempotency-Key", "k1", "idempotency-key", "k2")), "the first of many")
}

// header collects what a handler tells the edge.
type header struct {
	grpc.ServerTransportStream
	md metadata.MD
}

func (h *header) SetHeader(md metadata.MD) error {
	h.md = metadata.Join(h.md, md)
	return nil
}

func TestOnlyFurtherRowsAreToldOf(t *testing.T) {
	t.Parallel()
	h := &header{}
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), h)
	require.NoError(t, request.SetMore(ctx, false))
	require.Empty(t, h.md)
	require.NoError(t, request.SetMore(ctx, true))
	require.Equal(t, []string{"true"}, h.md.Get("x-service-more"))
	require.Error(t, request.SetMore(t.Context(), true), "there is no call to tell")
	require.NoError(t, request.SetMore(t.Context(), false))
}
