package slurm

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// recorder records commands instead of running them.
type recorder struct{ lines []string }

// Run implements Commands.
func (r *recorder) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	r.lines = append(r.lines, name+" "+strings.Join(args, " "))
	return nil, nil
}

// taken returns the commands since the last call.
func (r *recorder) taken() []string {
	lines := r.lines
	r.lines = nil
	return lines
}

func newAttempt(t *testing.T, ranks int, state string) (*attempt, *recorder, *clock.Fake) {
	t.Helper()
	now, commands := clock.NewFake(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)), &recorder{}
	r := New(Config{}, Deps{Clock: now, Commands: commands, Log: slog.New(slog.DiscardHandler)})
	a := &attempt{Runner: r, dir: t.TempDir(), ranks: make([]rankState, ranks), job: Job{ID: "7", State: state}}
	a.order = order{Key: executor.Key{WorkID: "a"}, Grace: 30 * time.Second}
	return a, commands, now
}

// Slurm sends SIGTERM to a running attempt at once, and ends it after the grace period and some seconds more.
func TestAttempt_act_stop(t *testing.T) {
	t.Parallel()
	a, commands, now := newAttempt(t, 1, "RUNNING")
	require.NoError(t, a.act(t.Context(), "7", nil))
	require.Empty(t, commands.taken())
	s := &stop{Grace: 30 * time.Second, At: now.Now()}
	const signal, kill = "scancel --quiet --signal=TERM --batch 7", "scancel --quiet 7"
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{{0, []string{signal}}, {time.Second, nil}, {38 * time.Second, nil}, {time.Second, []string{kill}}, {time.Second, nil}, {10 * time.Second, []string{kill}}} {
		now.Advance(c.after)
		require.NoError(t, a.act(t.Context(), "7", s))
		require.Equal(t, c.want, commands.taken(), now.Now().String())
	}
	a.job.State = "CANCELLED"
	now.Advance(time.Minute)
	require.NoError(t, a.act(t.Context(), "7", s))
	require.Empty(t, commands.taken())
}

// A shorter grace period replaces a longer one.
func TestAttempt_act_shorterGrace(t *testing.T) {
	t.Parallel()
	a, commands, now := newAttempt(t, 1, "RUNNING")
	require.NoError(t, a.act(t.Context(), "7", &stop{Grace: time.Hour, At: now.Now()}))
	now.Advance(time.Minute)
	forced := &stop{At: now.Now()}
	require.NoError(t, a.act(t.Context(), "7", forced))
	require.Len(t, commands.taken(), 2, "SIGTERM must be sent again")
	now.Advance(killAfter)
	require.NoError(t, a.act(t.Context(), "7", forced))
	require.Equal(t, []string{"scancel --quiet 7"}, commands.taken())
}

// A job that Slurm holds is cancelled at once, but only if it has not started since the last query.
func TestAttempt_act_held(t *testing.T) {
	t.Parallel()
	a, commands, now := newAttempt(t, 2, "PENDING")
	require.NoError(t, a.act(t.Context(), "7", &stop{Grace: time.Hour, At: now.Now()}))
	require.Equal(t, []string{"scancel --quiet --state=PENDING 7"}, commands.taken())
}

// Several ranks are signaled by their shims, not by Slurm, which would signal the commands a second time.
func TestAttempt_act_ranks(t *testing.T) {
	t.Parallel()
	a, commands, now := newAttempt(t, 2, "RUNNING")
	s := &stop{Grace: time.Second, At: now.Now()}
	require.NoError(t, a.act(t.Context(), "7", s))
	require.Empty(t, commands.taken())
	now.Advance(time.Second + killAfter)
	require.NoError(t, a.act(t.Context(), "7", s))
	require.Equal(t, []string{"scancel --quiet 7"}, commands.taken())
}
