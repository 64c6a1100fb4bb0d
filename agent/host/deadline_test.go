package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func (s *harness) exit(id string) executor.Exit {
	s.Helper()
	for _, o := range s.host.Observed() {
		if o.WorkID == id && o.Exit != nil {
			return *o.Exit
		}
	}
	s.Fatalf("%s has not ended", id)
	return executor.Exit{}
}

// TestDeadline_endsWork checks that the host ends the work by its own clock, without a new list.
func TestDeadline_endsWork(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(500 * time.Millisecond)
	endless := s.script("wrk_2", "exec sleep 600")
	s.apply(w, endless)
	s.until("the work has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.False(t, time.Now().Before(w.Deadline), "the work must not end before its deadline")
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason, "the reason must be the deadline, not a stop")
	s.until("the other work runs", func() bool { return s.phase("wrk_2") == executor.PhaseRunning })
	s.apply(w, endless)
	require.Equal(t, executor.PhaseExited, s.phase("wrk_1"), "the repeated list must not restart the work")
}

func TestDeadline_change(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(time.Hour)
	s.apply(w)
	s.until("the work runs", func() bool { return s.phase("wrk_1") == executor.PhaseRunning })
	w.Deadline = time.Now()
	s.apply(w)
	s.until("the work has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason)
}

func TestDeadline_survivesRestart(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(time.Hour)
	s.apply(w)
	s.until("the work runs", func() bool { return s.phase("wrk_1") == executor.PhaseRunning })
	w.Deadline = time.Now().Add(3 * time.Second)
	s.apply(w)
	s.stop()
	s.host, s.stop = open(t, s.dir, s.plane, nil)
	s.until("the work has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason, "the next agent must load the deadline from disk")
}
