package assignment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
)

func TestPutWork_deadlineChangesWithoutNewGeneration(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	until := func(at time.Time) bool {
		t.Helper()
		got, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running, func(r *jobspeerv1.PutWorkRequest) { r.Deadline = timestamppb.New(at) }))
		require.NoError(t, err)
		return got.GetChanged()
	}
	first := time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.UTC)
	require.True(t, until(first))
	require.True(t, b.get("wrk_1").Deadline.Equal(first.Truncate(time.Microsecond)))
	require.False(t, until(first), "the same deadline must not count as a change, although the database drops its nanoseconds")
	b.exec(`UPDATE work SET node_id = 'nod_1', waiting = '', fence = 3, phase = 'running'`)
	require.True(t, until(first.Add(time.Hour)))
	got := b.get("wrk_1")
	require.True(t, got.Deadline.Equal(first.Add(time.Hour).Truncate(time.Microsecond)))
	require.Equal(t, []any{int64(1), int64(3), "nod_1", "running"}, []any{got.Generation, got.Fence, got.NodeID, got.Phase}, "the same execution must keep running")
	changed, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running))
	require.NoError(t, err)
	require.True(t, changed.GetChanged())
	require.Nil(t, b.get("wrk_1").Deadline, "an order without a deadline must remove the deadline")
}
