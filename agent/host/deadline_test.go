package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func (s *site) exit(id string) executor.Exit {
	s.Helper()
	for _, o := range s.host.Observed() {
		if o.WorkID == id && o.Exit != nil {
			return *o.Exit
		}
	}
	s.Fatalf("%s has not ended", id)
	return executor.Exit{}
}

// Nobody tells the host anything after the one list: it ends the work by its own clock.
func TestAWorkEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(500 * time.Millisecond)
	endless := s.script("wrk_2", "exec sleep 600")
	s.apply(w, endless)
	s.until("it has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.False(t, time.Now().Before(w.Deadline), "not before its time")
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason, "which is not the word for what was stopped")
	s.until("the other one runs", func() bool { return s.phase("wrk_2") == executor.PhaseRunning })
	s.apply(w, endless)
	require.Equal(t, executor.PhaseExited, s.phase("wrk_1"), "told again it does not begin anew")
}

func TestADeadlineMoves(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(time.Hour)
	s.apply(w)
	s.until("it runs", func() bool { return s.phase("wrk_1") == executor.PhaseRunning })
	w.Deadline = time.Now()
	s.apply(w)
	s.until("it has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason)
}

func TestADeadlineOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	w := s.script("wrk_1", "exec sleep 600")
	w.Deadline = time.Now().Add(time.Hour)
	s.apply(w)
	s.until("it runs", func() bool { return s.phase("wrk_1") == executor.PhaseRunning })
	w.Deadline = time.Now().Add(3 * time.Second)
	s.apply(w)
	s.stop()
	s.host, s.stop = open(t, s.dir, s.plane, nil)
	s.until("it has ended", func() bool { return s.phase("wrk_1") == executor.PhaseExited })
	require.Equal(t, executor.ReasonDeadline, s.exit("wrk_1").Reason, "the next agent knows it from the disk")
}
