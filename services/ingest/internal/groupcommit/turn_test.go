package groupcommit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// patient is a clock whose timers do not end. It reports each new timer.
type patient struct {
	clock.Clock

	timers chan time.Duration
}

func (p patient) NewTimer(d time.Duration) clock.Timer {
	p.timers <- d
	return p.Clock.NewTimer(time.Hour)
}

func TestCommitter_turn_requestsJoinWaitingGroup(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	waits := patient{clock.Real(), make(chan time.Duration, 1)}
	b.clock = waits
	b.turns <- struct{}{} // the other flusher stores a group
	b.start()
	var items []*waiting
	for seq := range int64(3) {
		w := &waiting{Item: insertItem("run_1", "s", Key{"w", seq + 1}, 1), result: make(chan result, 1)}
		items = append(items, w)
		b.lanes[0] <- w
		if seq == 0 {
			require.Equal(t, maxTurn, <-waits.timers, "the flusher has the first request, and waits")
		}
	}
	require.Zero(t, b.count(`SELECT count(*) FROM hparam_history`))
	<-b.turns
	for _, w := range items {
		require.Equal(t, result{}, <-w.result)
	}
	require.Equal(t, 3, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, 1, b.count(`SELECT count(DISTINCT xmin::text) FROM hparam_history`), "one transaction")
	require.Empty(t, b.turns, "the turn has ended")
}

func TestCommitter_turn_longGroupDoesNotHoldOtherFlusher(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	b.start()
	begun, finish := make(chan struct{}), make(chan struct{})
	long := &waiting{Item: insertItem("run_1", "s", Key{}, 1), result: make(chan result, 1)}
	write := long.Write
	long.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		close(begun)
		<-finish
		return write(ctx, tx, batch, r)
	}
	other := &waiting{Item: insertItem("run_2", "s", Key{}, 1), result: make(chan result, 1)}
	b.lanes[0] <- long
	<-begun
	b.lanes[1] <- other
	require.Equal(t, result{}, <-other.result)
	close(finish)
	require.Equal(t, result{}, <-long.result)
}
