package slurm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// The exit files of the ranks decide how an attempt ended; the end of the Slurm job explains failures and stands in for
// missing files.
func TestAttempt_end(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	exit := func(code int, after time.Duration) *shim.Exit {
		return &shim.Exit{Code: code, StartedAt: began, EndedAt: began.Add(after)}
	}
	stopped := func(after time.Duration) *shim.Exit { e := exit(3, after); e.Stopped = true; return e }
	left := func(after time.Duration) *shim.Exit { e := exit(0, after); e.Stopped = true; return e }
	tooManyFiles := func(after time.Duration) *shim.Exit { e := stopped(after); e.Cause = shim.CauseFiles; return e }
	killed := func(after time.Duration) *shim.Exit { e := exit(-1, after); e.Signal = 9; return e }
	type want struct {
		none    bool
		found   bool
		rank    int
		code    int
		reason  executor.Reason
		message string
	}
	for name, c := range map[string]struct {
		ranks     []*shim.Exit
		state     string // of the job; empty if it is running
		requested bool
		limit     time.Duration
		want      want
	}{
		"all succeed":                      {ranks: []*shim.Exit{exit(0, 1), exit(0, 2)}, want: want{found: true}},
		"one still runs":                   {ranks: []*shim.Exit{exit(0, 1), nil}, want: want{none: true}},
		"failure before the job has ended": {ranks: []*shim.Exit{exit(3, 1)}, want: want{none: true}},
		"failure":                          {ranks: []*shim.Exit{exit(3, 1)}, state: "FAILED", want: want{found: true, code: 3}},
		"first failure counts": {
			ranks: []*shim.Exit{exit(4, 2), exit(3, 1)}, state: "FAILED", want: want{found: true, rank: 1, code: 3},
		},
		"others were stopped after a failure": {
			ranks: []*shim.Exit{stopped(1), exit(7, 2)}, state: "FAILED", want: want{found: true, rank: 1, code: 7},
		},
		"stopped by its shim before another rank": {
			ranks: []*shim.Exit{stopped(2), tooManyFiles(1)}, state: "FAILED", want: want{found: true, rank: 1, code: 3},
		},
		"requested stop": {ranks: []*shim.Exit{stopped(1)}, requested: true, want: want{found: true, code: 3}},
		"stop before the start": {
			ranks: []*shim.Exit{nil}, state: "CANCELLED", requested: true, want: want{},
		},
		"success although the node failed then": {ranks: []*shim.Exit{exit(0, 1)}, state: "NODE_FAIL", want: want{found: true}},
		"node failed": {
			ranks: []*shim.Exit{stopped(1), nil}, state: "NODE_FAIL", want: want{found: true, code: 3, reason: executor.ReasonLost, message: "NODE_FAIL"},
		},
		"signal before Slurm has ended the job": {ranks: []*shim.Exit{left(1)}, want: want{none: true}},
		"node failed, and the command left with 0": {
			ranks: []*shim.Exit{left(1)}, state: "NODE_FAIL", want: want{found: true, reason: executor.ReasonLost, message: "NODE_FAIL"},
		},
		"preempted, and the command left with 0": {
			ranks: []*shim.Exit{left(1)}, state: "PREEMPTED", want: want{found: true, reason: executor.ReasonLost, message: "PREEMPTED"},
		},
		"time limit, and the command left with 0": {
			ranks: []*shim.Exit{left(59 * time.Minute)}, state: "COMPLETED", limit: time.Hour,
			want: want{found: true, reason: executor.ReasonDeadline, message: "time limit"},
		},
		"requested stop, and the command left with 0": {ranks: []*shim.Exit{left(1)}, requested: true, want: want{found: true}},
		"peer of a failed node fails": {
			ranks: []*shim.Exit{exit(1, 1), nil}, state: "NODE_FAIL", want: want{found: true, code: 1, reason: executor.ReasonLost, message: "NODE_FAIL"},
		},
		"preempted": {
			ranks: []*shim.Exit{stopped(1)}, state: "PREEMPTED", want: want{found: true, code: 3, reason: executor.ReasonLost, message: "PREEMPTED"},
		},
		"cancelled by someone": {
			ranks: []*shim.Exit{killed(1)}, state: "CANCELLED", want: want{found: true, code: -1, reason: executor.ReasonLost, message: "CANCELLED"},
		},
		"out of memory": {
			ranks: []*shim.Exit{killed(1)}, state: "OUT_OF_MEMORY", want: want{found: true, code: -1, reason: executor.ReasonOOM, message: "memory"},
		},
		"time limit": {
			ranks: []*shim.Exit{nil}, state: "TIMEOUT", want: want{reason: executor.ReasonDeadline, message: "time limit"},
		},
		"signal before the time limit": {
			ranks: []*shim.Exit{stopped(59 * time.Minute)}, state: "COMPLETED", limit: time.Hour,
			want: want{found: true, code: 3, reason: executor.ReasonDeadline, message: "time limit"},
		},
		"no exit file": {ranks: []*shim.Exit{nil}, state: "COMPLETED", want: want{reason: executor.ReasonLost, message: "COMPLETED"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := clock.NewFake(began.Add(2 * time.Hour))
			a := &attempt{Runner: New(Config{}, Deps{Clock: now}), dir: t.TempDir(), order: order{Batch: executor.BatchSpec{TimeLimit: c.limit}}}
			for _, e := range c.ranks {
				a.ranks = append(a.ranks, rankState{exit: e})
			}
			a.job = Job{ID: "7", State: "RUNNING", Nodes: "n1"}
			if c.state != "" {
				a.job.State, a.overAt = c.state, began.Add(time.Hour)
			}
			var requested *stop
			if c.requested {
				requested = &stop{}
			}
			end := a.end(requested)
			if c.want.none {
				require.Nil(t, end)
				return
			}
			require.NotNil(t, end)
			require.Equal(t, c.want.found, end.Found)
			require.Equal(t, c.want.rank, end.Rank)
			if end.Found {
				require.Equal(t, c.want.code, end.Exit.Code)
			}
			require.Equal(t, c.want.reason, end.Reason)
			require.Contains(t, end.Message, c.want.message)
		})
	}
}

// A job that Slurm has forgotten without exit files is lost, but only after several queries.
func TestAttempt_forgottenJob(t *testing.T) {
	t.Parallel()
	now := clock.NewFake(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	r := New(Config{}, Deps{Clock: now})
	a := &attempt{Runner: r, dir: t.TempDir(), ranks: make([]rankState, 1)}
	require.NoError(t, save(a.dir, "7"))
	var ends []*host.End
	for n := 1; n <= 4; n++ {
		r.seen = snapshot{number: n, at: now.Now()}
		a.observe(r.seen, "7")
		ends = append(ends, a.end(nil))
		now.Advance(usualSettle / 2)
	}
	require.Equal(t, []*host.End{nil, nil}, ends[:2])
	require.NotNil(t, ends[3])
	require.Equal(t, executor.ReasonLost, ends[3].Reason)
	require.Contains(t, ends[3].Message, "does not know job 7")
}

// The message about a failed node names it with its reason, also while Slurm cleans up the job there.
func TestDownNodes(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"n2 (no power)", "n3 (Not responding)", "n5"}, downNodes("n1|mixed|none\nn1|mixed|none\n"+
		"n2|mixed|no power\nn2|mixed|no power\nn3|down*|Not responding\nn4|idle|none\nn5|down|none\na message\n"))
}
