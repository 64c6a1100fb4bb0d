package request_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestOptionalTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 1999, time.UTC)
	require.Nil(t, request.OptionalTime(nil))
	require.Equal(t, at, request.OptionalTime(&at).AsTime())
	require.Nil(t, request.NonZeroTime(time.Time{}))
	require.Equal(t, at, request.NonZeroTime(at).AsTime())

	require.Nil(t, request.TimeOf(nil), "a missing timestamp is not 1970")
	require.Equal(t, at, *request.TimeOf(timestamppb.New(at)))
	require.True(t, request.TimeOrZero(nil).IsZero())
	require.Equal(t, at, request.TimeOrZero(timestamppb.New(at)))
}

func TestStorableTime(t *testing.T) {
	t.Parallel()
	require.Nil(t, request.StorableTime(nil))
	require.Nil(t, request.StorableTime(&timestamppb.Timestamp{Nanos: -1}), "an invalid timestamp counts as missing")
	got := request.StorableTime(timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 1999, time.UTC)))
	require.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC), *got, "Postgres stores microseconds")
}

func TestNonEmpty(t *testing.T) {
	t.Parallel()
	require.Nil(t, request.NonEmpty(""))
	require.Equal(t, "a", *request.NonEmpty("a"))
}
