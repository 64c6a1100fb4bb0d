package rank_test

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
)

// Of several Slurm jobs that start at the same time, one claims the attempt, with all its ranks.
func TestTake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const jobs, ranks = 8, 4
	var won [jobs]atomic.Int32
	var all sync.WaitGroup
	for job := range jobs {
		for range ranks {
			all.Go(func() {
				mine, err := rank.Take(dir, strconv.Itoa(job+1))
				if err != nil {
					t.Error(err)
				}
				if mine {
					won[job].Add(1)
				}
			})
		}
	}
	all.Wait()
	owner, err := rank.Claimed(dir)
	require.NoError(t, err)
	for job := range jobs {
		want := int32(0)
		if owner == strconv.Itoa(job+1) {
			want = ranks
		}
		require.Equal(t, want, won[job].Load(), job+1)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the claim may be left")
}

// A job that Slurm has started again is another one.
func TestTake_restartedJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, err := rank.Claimed(dir)
	require.NoError(t, err)
	require.Empty(t, owner)
	mine, err := rank.Take(dir, "7")
	require.NoError(t, err)
	require.True(t, mine)
	mine, err = rank.Take(dir, "7/1")
	require.NoError(t, err)
	require.False(t, mine)
	owner, err = rank.Claimed(dir)
	require.NoError(t, err)
	require.Equal(t, "7", owner)
}
