package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/services/registry/internal/request"
)

func TestPages(t *testing.T) {
	t.Parallel()
	n := func(v int32) *int32 { return &v }
	cases := map[string]struct {
		limit, offset *int32
		want          page.Page
		wrong         string
	}{
		"neither":          {nil, nil, page.Page{Limit: page.DefaultLimit}, ""},
		"both":             {n(1), n(7), page.Page{Limit: 1, Offset: 7}, ""},
		"the most":         {n(page.MaxLimit), n(page.MaxOffset), page.Page{Limit: page.MaxLimit, Offset: page.MaxOffset}, ""},
		"no rows":          {n(0), nil, page.Page{}, "limit"},
		"too many":         {n(page.MaxLimit + 1), nil, page.Page{}, "limit"},
		"before the first": {nil, n(-1), page.Page{}, "offset"},
		"too far":          {nil, n(page.MaxOffset + 1), page.Page{}, "offset"},
	}
	for name, c := range cases {
		got, err := request.Page(c.limit, c.offset)
		if c.wrong == "" {
			require.NoError(t, err, name)
			require.Equal(t, c.want, got, name)
			continue
		}
		require.True(t, fault.Is(err, fault.Invalid), name)
		require.Equal(t, []any{c.wrong}, fault.From(err).Fields[0].Loc, name)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	require.NoError(t, request.ID(id.Dataset, "id", "ds_01k00000000000000000000001"))
	for _, bad := range []string{"", "ds_", "ds_1", "mdl_01k00000000000000000000001", "ds_01K00000000000000000000001", "ds_01k00000000000000000000001 "} {
		err := request.ID(id.Dataset, "dataset_id", bad)
		require.True(t, fault.Is(err, fault.Invalid), bad)
		require.Equal(t, []any{"dataset_id"}, fault.From(err).Fields[0].Loc)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	require.Empty(t, request.IdempotencyKey(t.Context()))
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("Idempotency-Key", "k1", "idempotency-key", "k2"))
	require.Equal(t, "k1", request.IdempotencyKey(ctx))
	require.NoError(t, request.SetMore(t.Context(), false), "nothing is told of a last page")
	require.ErrorContains(t, request.SetMore(t.Context(), true), "tell of further rows")
	require.ErrorContains(t, request.SetStatus(t.Context(), 200), "tell the status")
}
