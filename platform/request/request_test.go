package request_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestPage_namesParameterOutOfRange(t *testing.T) {
	t.Parallel()
	n := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		limit, offset *int32
		want          request.Page
		bad           string
	}{
		"defaults":          {want: request.Page{Limit: request.DefaultLimit}},
		"minimum":           {limit: n(1), offset: n(0), want: request.Page{Limit: 1}},
		"in between":        {limit: n(1), offset: n(7), want: request.Page{Limit: 1, Offset: 7}},
		"maximum":           {limit: n(request.MaxLimit), offset: n(request.MaxOffset), want: request.Page{Limit: request.MaxLimit, Offset: request.MaxOffset}},
		"zero limit":        {limit: n(0), bad: "limit"},
		"limit too high":    {limit: n(request.MaxLimit + 1), bad: "limit"},
		"negative offset":   {offset: n(-1), bad: "offset"},
		"offset too high":   {offset: n(request.MaxOffset + 1), bad: "offset"},
		"both out of range": {limit: n(-3), offset: n(-1), bad: "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := request.ReadPage(c.limit, c.offset)
			if c.bad == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				return
			}
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			require.Equal(t, []any{c.bad}, fault.From(err).Fields[0].Loc)
		})
	}
}

func TestID_malformed(t *testing.T) {
	t.Parallel()
	const good = "job_01jd000000000000000000000a"
	require.NoError(t, request.ID(id.Job, "job_id", good))
	for name, bad := range map[string]string{
		"empty": "", "prefix only": "job_", "different prefix": "run_01jd000000000000000000000a",
		"too short": good[:len(good)-1], "too long": good + "a", "space": good + " ", "newline": good + "\n",
		"upper case": "job_01JD000000000000000000000A", "path": "job_../../../../../etc/passwd0", "too large": "job_81jd000000000000000000000a",
	} {
		err := request.ID(id.Job, "job_id", bad)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.Equal(t, []any{"job_id"}, fault.From(err).Fields[0].Loc, name)
	}
}

func TestStreamPosition_pastLastID(t *testing.T) {
	t.Parallel()
	for _, after := range []int64{-1, 0, 6, 7} {
		require.NoError(t, request.StreamPosition(after, 7), after)
	}
	err := request.StreamPosition(8, 7)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	field := fault.From(err).Fields[0]
	require.Equal(t, []any{"after"}, field.Loc)
	require.Equal(t, "Input should be less than or equal to 7, the stream's last id", field.Msg)
	require.Equal(t, map[string]any{"le": int64(7)}, field.Ctx)
}

func TestIdempotencyKey_firstValue(t *testing.T) {
	t.Parallel()
	with := func(pairs ...string) context.Context {
		return metadata.NewIncomingContext(t.Context(), metadata.Pairs(pairs...))
	}
	require.Empty(t, request.IdempotencyKey(t.Context()), "a request without metadata has no key")
	require.Empty(t, request.IdempotencyKey(with("other", "x")))
	require.Equal(t, "k1", request.IdempotencyKey(with("Idempotency-Key", "k1", "idempotency-key", "k2")))
}

// header records the headers that a handler sends to the gateway.
type header struct {
	grpc.ServerTransportStream
	md metadata.MD
}

func (h *header) SetHeader(md metadata.MD) error {
	h.md = metadata.Join(h.md, md)
	return nil
}

func TestSetMore(t *testing.T) {
	t.Parallel()
	h := &header{}
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), h)
	require.NoError(t, request.SetMore(ctx, false))
	require.Empty(t, h.md)
	require.NoError(t, request.SetMore(ctx, true))
	require.Equal(t, []string{"true"}, h.md.Get("x-service-more"))
}

func TestSetTotal(t *testing.T) {
	t.Parallel()
	h := &header{}
	require.NoError(t, request.SetTotal(grpc.NewContextWithServerTransportStream(t.Context(), h), 0))
	require.Equal(t, []string{"0"}, h.md.Get("x-service-total"), "zero rows are reported too")
}

func TestSetStatus(t *testing.T) {
	t.Parallel()
	h := &header{}
	require.NoError(t, request.SetStatus(grpc.NewContextWithServerTransportStream(t.Context(), h), 202))
	require.Equal(t, []string{"202"}, h.md.Get("x-service-status"))
}

func TestCheckIfMatch(t *testing.T) {
	t.Parallel()
	with := func(tags ...string) context.Context {
		md := metadata.MD{}
		for _, tag := range tags {
			md.Append("if-match", tag)
		}
		return metadata.NewIncomingContext(t.Context(), md)
	}
	require.NoError(t, request.CheckIfMatch(t.Context(), 3), "without the header every version matches")
	for _, good := range []string{`"3"`, `*`, `"1", "3"`, ` "3" `} {
		require.NoError(t, request.CheckIfMatch(with(good), 3), good)
	}
	for _, bad := range []string{`"2"`, `3`, `W/"3"`, `"3`, ``, `"33"`, `""`} {
		err := request.CheckIfMatch(with(bad), 3)
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, request.CodeStale), "%q: %v", bad, err)
	}
	require.NoError(t, request.CheckIfMatch(with(`"1"`, `"3"`), 3), "two headers count as one list")
	h := &header{}
	require.NoError(t, request.SetETag(grpc.NewContextWithServerTransportStream(t.Context(), h), 7))
	require.Equal(t, []string{`"7"`}, h.md.Get("etag"))
	require.ErrorContains(t, request.SetETag(t.Context(), 7), "set the header etag")
}

func TestResponseHeaders_outsideOfCall(t *testing.T) {
	t.Parallel()
	require.NoError(t, request.SetMore(t.Context(), false), "there is nothing to send")
	require.ErrorContains(t, request.SetMore(t.Context(), true), "set the header x-service-more")
	require.ErrorContains(t, request.SetStatus(t.Context(), 200), "set the header x-service-status")
	require.ErrorContains(t, request.SetTotal(t.Context(), 1), "set the header x-service-total")
}
