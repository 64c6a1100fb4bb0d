package assignment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func attempt(phase string) *Work {
	return &Work{
		Observed: Observed{Key: Key{ID: "wrk_1", Generation: 1, Fence: 1}, Phase: phase}, Kind: Attempt, Desired: WantRunning,
		DesiredAt: fixtures.Now(), NodeID: "nod_1", JobID: "job_1",
	}
}

func engine(phase string) *Work {
	w := attempt(phase)
	w.Kind, w.JobID, w.Spec = Engine, "", []byte("v1")
	return w
}

func seen(phase string, change ...func(*Observed)) Observed {
	s := Observed{Key: Key{ID: "wrk_1", Generation: 1, Fence: 1}, Phase: phase}
	for _, c := range change {
		c(&s)
	}
	return s
}

func exits(code int, reason string) func(*Observed) {
	return func(s *Observed) { s.Exit = &gang.Exit{Code: code, Reason: reason} }
}

func TestWork_Apply_onlyNewStateOfSameExecution(t *testing.T) {
	t.Parallel()
	released := attempt(gang.PhaseRunning)
	now := fixtures.Now()
	released.ReleasedAt = &now
	ended := attempt(gang.PhaseExited)
	ended.Exit = &gang.Exit{Code: 3}
	for name, c := range map[string]struct {
		work *Work
		seen Observed
		news bool
	}{
		"first report":      {attempt(""), seen(gang.PhasePending), true},
		"repeated report":   {attempt(gang.PhasePreparing), seen(gang.PhasePreparing), false},
		"new detail":        {attempt(gang.PhasePreparing), seen(gang.PhasePreparing, func(s *Observed) { s.Detail = "numpy" }), true},
		"other fence":       {attempt(gang.PhasePreparing), seen(gang.PhaseRunning, func(s *Observed) { s.Fence = 2 }), false},
		"other generation":  {attempt(gang.PhasePreparing), seen(gang.PhaseRunning, func(s *Observed) { s.Generation = 2 }), false},
		"after release":     {released, seen(gang.PhaseExited, exits(0, "")), false},
		"attempt goes back": {attempt(gang.PhaseRunning), seen(gang.PhasePreparing), false},
		"engine restarts":   {engine(gang.PhaseRunning), seen(gang.PhasePreparing), true},
		"exit is final":     {ended, seen(gang.PhaseGone, exits(0, "")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.news, c.work.Apply(c.seen))
		})
	}
}

func TestWork_Apply_attemptEndsWhenOutputIsDelivered(t *testing.T) {
	t.Parallel()
	w := attempt(gang.PhaseRunning)
	require.True(t, w.Apply(seen(gang.PhaseCollecting, exits(0, ""))))
	require.Nil(t, w.Exit, "the attempt must not end before its logs are delivered")
	require.True(t, w.Apply(seen(gang.PhaseExited, exits(4, ""))))
	require.Equal(t, &gang.Exit{Code: 4}, w.Exit)

	w = attempt(gang.PhaseRunning)
	require.True(t, w.Apply(seen(gang.PhaseExited)))
	require.Equal(t, gang.ExitLost, w.Exit.Reason, "an attempt that exited without a reported exit must count as lost")
}

func TestWork_Apply_keepsTimes(t *testing.T) {
	t.Parallel()
	began, ran := fixtures.Now(), fixtures.Now().Add(time.Second)
	w := attempt("")
	require.True(t, w.Apply(seen(gang.PhaseRunning, func(s *Observed) { s.PreparingAt, s.RunningAt = &began, &ran })))
	require.True(t, w.Apply(seen(gang.PhaseCollecting)))
	require.Equal(t, began, *w.PreparingAt)
	require.Equal(t, ran, *w.RunningAt)
}

func TestWork_Apply_newEngineKeyIsChange(t *testing.T) {
	t.Parallel()
	w := engine(gang.PhaseRunning)
	with := func(key string) Observed {
		return seen(gang.PhaseRunning, func(s *Observed) { s.EngineKey = secret.New(key) })
	}
	require.True(t, w.Apply(with("one")))
	require.False(t, w.Apply(with("one")))
	require.True(t, w.Apply(with("two")))
	require.Equal(t, "two", w.EngineKey.Reveal())
}

func TestWork_Miss(t *testing.T) {
	t.Parallel()
	soon, later := fixtures.Now().Add(time.Second), fixtures.Now().Add(missingGrace)
	for name, c := range map[string]struct {
		work  *Work
		want  Desired
		now   time.Time
		news  bool
		phase string
		lost  bool
	}{
		"not observed yet":      {attempt(""), WantRunning, later, false, "", false},
		"pending":               {attempt(gang.PhasePending), WantRunning, later, false, gang.PhasePending, false},
		"was running":           {attempt(gang.PhaseRunning), WantRunning, soon, true, gang.PhaseGone, true},
		"was preparing":         {attempt(gang.PhasePreparing), WantRunning, soon, true, gang.PhaseGone, true},
		"stop, just sent":       {attempt(""), WantStopped, soon, false, "", false},
		"stop, never observed":  {attempt(""), WantStopped, later, true, gang.PhaseGone, true},
		"engine restarts":       {engine(gang.PhaseRunning), WantRunning, soon, true, "", false},
		"engine desired gone":   {engine(gang.PhaseRunning), WantGone, soon, true, gang.PhaseGone, true},
		"engine never observed": {engine(""), WantGone, later, true, gang.PhaseGone, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.work.Desired = c.want
			require.Equal(t, c.news, c.work.Miss(c.now))
			require.Equal(t, c.phase, c.work.Phase)
			require.Equal(t, c.lost, c.work.Exit != nil)
		})
	}
	broken := engine(gang.PhaseExited)
	broken.Exit = &gang.Exit{Code: 1}
	broken.Desired = WantStopped
	require.False(t, broken.Miss(later), "an attempt whose exit is known must not count as lost")
	now := fixtures.Now()
	broken.ReleasedAt = &now
	require.False(t, broken.Miss(later))
}

func TestWork_Settle_engine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phase  string
		exit   *gang.Exit
		want   Desired
		placed bool
		freed  bool
		after  string
	}{
		"running":              {gang.PhaseRunning, nil, WantRunning, true, false, gang.PhaseRunning},
		"failed by itself":     {gang.PhaseExited, &gang.Exit{Code: 1}, WantRunning, true, false, gang.PhaseExited},
		"environment failed":   {gang.PhaseExited, &gang.Exit{Code: -1, Reason: "env_build"}, WantRunning, true, false, gang.PhaseExited},
		"stopped by the agent": {gang.PhaseExited, &gang.Exit{Code: -1, Reason: "stopped"}, WantRunning, false, false, ""},
		"lost":                 {gang.PhaseGone, &gang.Exit{Code: -1, Reason: "lost"}, WantRunning, false, false, ""},
		"stopped as desired":   {gang.PhaseExited, &gang.Exit{Code: -1, Reason: "stopped"}, WantStopped, true, true, gang.PhaseExited},
		"gone as desired":      {gang.PhaseExited, &gang.Exit{}, WantGone, true, true, gang.PhaseGone},
		"still collecting":     {gang.PhaseCollecting, nil, WantGone, true, false, gang.PhaseCollecting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := engine(c.phase)
			w.Exit, w.Desired = c.exit, c.want
			w.Settle(fixtures.Now())
			require.Equal(t, c.placed, w.NodeID != "")
			require.Equal(t, c.freed, w.Released())
			require.Equal(t, c.after, w.Phase)
			require.Equal(t, !c.placed, w.Waiting != "")
		})
	}
	a := attempt(gang.PhaseExited)
	a.Exit = &gang.Exit{}
	a.Settle(fixtures.Now())
	require.False(t, a.Released(), "Settle must not release an attempt")
}

func order(generation int64, desired Desired, change ...func(*Order)) Order {
	o := Order{ID: "wrk_1", Generation: generation, Desired: desired, Spec: []byte("v1")}
	for _, c := range change {
		c(&o)
	}
	return o
}

func TestWork_Put(t *testing.T) {
	t.Parallel()
	now := fixtures.Now()
	free := func() *Work {
		w := engine(gang.PhaseExited)
		w.Desired, w.ReleasedAt = WantStopped, &now
		return w
	}
	waiting := func() *Work {
		w := engine("")
		w.NodeID, w.Waiting = "", WaitCapacity
		return w
	}
	v2 := func(o *Order) { o.Spec = []byte("v2") }
	for name, c := range map[string]struct {
		work     *Work
		order    Order
		changed  bool
		conflict bool
		check    func(t *testing.T, w *Work)
	}{
		"unchanged":        {engine(gang.PhaseRunning), order(1, WantRunning), false, false, nil},
		"older generation": {engine(gang.PhaseRunning), order(0, WantRunning), false, true, nil},
		"same, new spec":   {engine(gang.PhaseRunning), order(1, WantRunning, v2), false, true, nil},
		"attempt's ID":     {attempt(gang.PhaseRunning), order(1, WantGone), false, true, nil},
		"stop": {engine(gang.PhaseRunning), order(1, WantStopped), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.Equal(t, gang.PhaseRunning, w.Phase, "an order must not change the observed phase")
			require.Equal(t, WantStopped, w.Desired)
		}},
		"newer generation": {engine(gang.PhaseRunning), order(2, WantRunning, v2), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.Equal(t, "nod_1", w.NodeID, "the engine must keep its node")
			require.Empty(t, w.Phase, "a new execution must have no observed phase")
			require.Equal(t, []byte("v2"), w.Spec)
		}},
		"newer generation, other pool": {engine(gang.PhaseRunning), order(2, WantRunning, func(o *Order) { o.Pool = "gpu" }), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.Empty(t, w.NodeID)
			require.Equal(t, WaitStart, w.Waiting)
		}},
		"run again": {free(), order(1, WantRunning), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.Empty(t, w.NodeID)
			require.False(t, w.Released())
		}},
		"gone before it was placed": {waiting(), order(1, WantGone), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.True(t, w.Released())
			require.Equal(t, gang.PhaseGone, w.Phase)
			require.Empty(t, w.Waiting)
		}},
		"stopped before it was placed": {waiting(), order(1, WantStopped), true, false, func(t *testing.T, w *Work) {
			t.Helper()
			require.True(t, w.Released())
			require.Equal(t, gang.PhaseExited, w.Phase)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed, err := c.work.Put(c.order, now)
			require.Equal(t, c.conflict, fault.Is(err, fault.Conflict), "%v", err)
			require.Equal(t, c.changed, changed)
			if c.check != nil {
				c.check(t, c.work)
			}
		})
	}
}

// After a restore of the database a node may have newer executions than the database.
func TestWork_Supersede(t *testing.T) {
	t.Parallel()
	released := engine(gang.PhaseRunning)
	now := fixtures.Now()
	released.ReleasedAt = &now
	stopping := engine(gang.PhaseRunning)
	stopping.Desired = WantStopped
	at := func(generation, fence int64) Observed {
		return seen(gang.PhaseRunning, func(s *Observed) { s.Generation, s.Fence = generation, fence })
	}
	for name, c := range map[string]struct {
		work  *Work
		seen  Observed
		fence int64 // the expected fence; 1 means unchanged
	}{
		"same execution":            {engine(gang.PhaseRunning), at(1, 1), 1},
		"older fence":               {engine(gang.PhaseRunning), at(9, 0), 1},
		"older generation":          {engine(gang.PhaseRunning), at(0, 1), 1},
		"newer fence":               {engine(gang.PhaseRunning), at(1, 7), 8},
		"newer generation":          {engine(gang.PhaseRunning), at(2, 1), 2},
		"older generation of newer": {engine(gang.PhaseRunning), at(0, 7), 8},
		"engine that must stop":     {stopping, at(1, 7), 8},
		"released engine":           {released, at(1, 7), 1},
		"attempt":                   {attempt(gang.PhaseRunning), at(1, 7), 1},
		"fence out of range":        {engine(gang.PhaseRunning), at(1, 1<<62), 1},
	} {
		require.Equal(t, c.fence != 1, c.work.Supersede(c.seen), name)
		require.Equal(t, c.fence, c.work.Fence, name)
		if c.fence != 1 {
			require.Empty(t, c.work.Phase, "%s: a new execution must have no observed phase", name)
		}
	}
}
