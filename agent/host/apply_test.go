package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// harness is a host executor for tests that run several works.
type harness struct {
	*testing.T
	dir   string
	plane *executortest.ControlPlane
	host  *host.Host
	stop  func()
}

func newHarness(t *testing.T, change func(*host.Config)) *harness {
	t.Helper()
	s := &harness{T: t, dir: t.TempDir(), plane: executortest.NewControlPlane(t)}
	s.host, s.stop = open(t, s.dir, s.plane, change)
	t.Cleanup(func() {
		s.apply()
		s.until("all works are gone", func() bool { return len(s.host.Observed()) == 0 })
		s.stop()
	})
	return s
}

func (s *harness) apply(works ...executor.Work) {
	s.Helper()
	require.NoError(s, s.host.Apply(context.Background(), works))
}

// until waits until condition returns true. It fails the test after a minute.
func (s *harness) until(what string, condition func() bool) {
	s.Helper()
	guard := time.NewTimer(time.Minute)
	defer guard.Stop()
	for !condition() {
		select {
		case <-s.host.Changes():
		case <-guard.C:
			s.Fatalf("timeout waiting for: %s; observed: %+v", what, s.host.Observed())
		}
	}
}

func (s *harness) phase(id string) executor.Phase {
	for _, o := range s.host.Observed() {
		if o.WorkID == id {
			return o.Phase
		}
	}
	return ""
}

func (s *harness) script(id, text string) executor.Work {
	return executor.Work{
		Key: executor.Key{WorkID: id, Generation: 1, Fence: 1}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{
			JobID: "job_1", RunID: "run_1", Command: []string{"/bin/sh", "-c", text}, IngestEndpoint: s.plane.Endpoint(), Grace: time.Second,
		},
	}
}

func TestHost_Apply_invalidWorkDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	good := s.script("good", "exit 0")
	engineWithAttempt := s.script("both", "true")
	engineWithAttempt.Kind = executor.KindEngine
	both := s.script("two", "true")
	both.Engine = &executor.EngineSpec{Driver: "command"}
	for name, c := range map[string]struct {
		bad   executor.Work
		words string
	}{
		"parent folder":       {executor.Work{Key: executor.Key{WorkID: "../x"}, Desired: executor.DesiredRunning}, "must have 1 to 128 letters"},
		"negative fence":      {executor.Work{Key: executor.Key{WorkID: "x", Fence: -1}, Desired: executor.DesiredRunning}, "negative"},
		"missing spec":        {executor.Work{Key: executor.Key{WorkID: "x"}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning}, "does not match"},
		"spec of other kind":  {engineWithAttempt, "does not match"},
		"two specs":           {both, "does not match"},
		"no kind and no spec": {executor.Work{Key: executor.Key{WorkID: "x"}, Desired: executor.DesiredRunning}, "does not match"},
	} {
		err := s.host.Apply(t.Context(), []executor.Work{c.bad, good})
		require.ErrorContains(t, err, c.words, name)
		require.NotEmpty(t, s.phase("good"), name)
		require.Empty(t, s.phase(c.bad.WorkID), name)
	}
	s.until("the valid work ends", func() bool { return s.phase("good") == executor.PhaseExited })
}

func TestHost_Apply_worksRunConcurrently(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	meet := t.TempDir()
	// Each script waits for the other. If the works ran in sequence, neither would end.
	script := func(mine, other string) string {
		return fmt.Sprintf("touch %s/%s; while [ ! -e %s/%s ]; do sleep 0.01; done", meet, mine, meet, other)
	}
	s.apply(s.script("a", script("a", "b")), s.script("b", script("b", "a")))
	s.until("both end", func() bool { return s.phase("a") == executor.PhaseExited && s.phase("b") == executor.PhaseExited })
	all := s.host.Observed()
	require.Len(t, all, 2)
	require.Equal(t, "a", all[0].WorkID, "the observations must be ordered by work id")
}

func TestHost_Apply_concurrentCalls(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	starts := filepath.Join(t.TempDir(), "starts")
	w := s.script("a", "echo x >> "+starts+"; sleep 300")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := s.host.Apply(context.Background(), []executor.Work{w}); err != nil {
				t.Errorf("apply: %v", err)
			}
			_ = s.host.Observed()
		})
	}
	wg.Wait()
	s.until("the work runs", func() bool { return s.phase("a") == executor.PhaseRunning })
	require.Len(t, s.host.Observed(), 1)
	require.Equal(t, 1, s.plane.Minted(w.Key))
}

func TestHost_Apply_stoppedIsFinal(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	w := s.script("a", "sleep 300")
	s.apply(w)
	s.until("the work runs", func() bool { return s.phase("a") == executor.PhaseRunning })
	stopped := w
	stopped.Desired = executor.DesiredStopped
	s.apply(stopped)
	s.apply(w) // Apply receives an outdated list.
	s.until("the work ends", func() bool { return s.phase("a") == executor.PhaseExited })
	require.Equal(t, executor.ReasonStopped, s.host.Observed()[0].Exit.Reason)
	s.apply(w)
	require.Equal(t, executor.PhaseExited, s.phase("a"), "the work must not be started again")
}

func TestHost_Observed_unknownWorkIsGoneWhileListed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	for _, desired := range []executor.Desired{executor.DesiredStopped, executor.DesiredGone} {
		w := s.script("never", "true")
		w.Desired = desired
		s.apply(w)
		require.Equal(t, executor.PhaseGone, s.phase("never"), desired)
		s.apply()
		require.Empty(t, s.phase("never"))
	}
	require.NoDirExists(t, filepath.Join(s.dir, "works", "never.1.1"))
}

func TestHost_Apply_olderGenerationIgnored(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	newer, older := s.script("a", "sleep 300"), s.script("a", "echo older")
	newer.Generation = 2
	s.apply(newer)
	s.until("the work runs", func() bool { return s.phase("a") == executor.PhaseRunning })
	s.apply(older)
	require.Equal(t, newer.Key, s.host.Observed()[0].Key)
	require.Len(t, s.host.Observed(), 1)
	s.apply(newer, older)
	require.Equal(t, executor.PhaseRunning, s.phase("a"))
}

func TestHost_Apply_newGenerationsReplaceOlder(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	order := filepath.Join(t.TempDir(), "order")
	for generation := int64(1); generation <= 5; generation++ {
		w := s.script("a", fmt.Sprintf("echo %d >> %s; sleep 300", generation, order))
		w.Generation = generation
		s.apply(w)
	}
	s.until("only the newest generation is left", func() bool {
		all := s.host.Observed()
		return len(all) == 1 && all[0].Generation == 5 && all[0].Phase == executor.PhaseRunning
	})
	entries, err := os.ReadDir(filepath.Join(s.dir, "works"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "a.5.1", entries[0].Name())
}

func TestHost_Shutdown_startsNoWorks(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	starts := filepath.Join(t.TempDir(), "starts")
	first := s.script("a", "sleep 300")
	s.apply(first)
	s.until("the work runs", func() bool { return s.phase("a") == executor.PhaseRunning })
	require.NoError(t, s.host.Shutdown(t.Context(), true))
	require.NoError(t, s.host.Shutdown(t.Context(), true), "a second call must succeed, as after a second signal")
	s.apply(first, s.script("b", "echo x >> "+starts))
	require.Empty(t, s.phase("b"), "works must not start after Shutdown")
	s.until("the running work has ended", func() bool { return s.phase("a") == executor.PhaseExited })
	require.Equal(t, executor.ReasonStopped, s.host.Observed()[0].Exit.Reason)
	s.stop()
	s.host, s.stop = open(t, s.dir, s.plane, nil)
	s.apply(s.script("b", "echo x >> "+starts))
	s.until("the next executor runs the work", func() bool { return s.phase("b") == executor.PhaseExited })
}

func TestHost_Shutdown_canceledNamesRunningWork(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.apply(s.script("a", "trap '' TERM; sleep 300"))
	s.until("the work runs", func() bool { return s.phase("a") == executor.PhaseRunning })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.host.Shutdown(ctx, true)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "a.1.1")
	// After Shutdown the executor ignores lists. The cleanup applies an empty list, so start another executor.
	s.stop()
	s.host, s.stop = open(t, s.dir, s.plane, nil)
}

func TestHost_timesSurviveRestarts(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.apply(s.script("a", "exit 0"))
	s.until("the work has ended", func() bool { return s.phase("a") == executor.PhaseExited })
	before := s.host.Observed()
	s.stop()
	for range 3 {
		s.host, s.stop = open(t, s.dir, s.plane, nil)
		require.Equal(t, before, s.host.Observed())
		s.stop()
	}
	s.host, s.stop = open(t, s.dir, s.plane, nil)
}

func TestNew_damagedWorkFails(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"assignment.json", "state.json"} {
		s := newHarness(t, nil)
		s.apply(s.script("a", "exit 0"))
		s.until("the work has ended", func() bool { return s.phase("a") == executor.PhaseExited })
		s.stop()
		path := filepath.Join(s.dir, "works", "a.1.1", file)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		_, err = host.New(host.Config{Data: s.dir, Exec: []string{"x"}}, host.Deps{})
		require.ErrorContains(t, err, "a.1.1")
		require.ErrorContains(t, err, file)
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		s.host, s.stop = open(t, s.dir, s.plane, nil)
	}
}

func TestHost_inputPathsOutsideFolderRejected(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	data := s.plane.Put("d", []byte("x"))
	var works []executor.Work
	for i, name := range []string{"..", "../x", "a/b", "/etc", "", "."} {
		w := s.script(fmt.Sprintf("w%d", i), "true")
		w.Attempt.Datasets = []executor.DatasetInput{{Name: name, Files: []executor.ObjectRef{data}}}
		works = append(works, w)
	}
	climbing := s.script("path", "true")
	ref := data
	ref.Path = "../../../x"
	climbing.Attempt.Datasets = []executor.DatasetInput{{Name: "train", Files: []executor.ObjectRef{ref}}}
	s.apply(append(works, climbing)...)
	s.until("all works have ended", func() bool {
		for _, o := range s.host.Observed() {
			if o.Phase != executor.PhaseExited {
				return false
			}
		}
		return true
	})
	for _, o := range s.host.Observed() {
		require.Equal(t, executor.ReasonFetch, o.Exit.Reason, "%s: %+v", o.WorkID, o.Exit)
		require.True(t, strings.Contains(o.Exit.Message, "must be a file name") || strings.Contains(o.Exit.Message, "is outside the work's folder"), o.Exit.Message)
	}
}

// A later version of the control plane may list a running work in a form that this agent does not accept.
func TestHost_Apply_keepsListedWorkThatItCannotCheck(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "sleep 300", nil)
	a.apply()
	a.reach(executor.PhaseRunning)
	listed := a.work
	listed.Attempt, listed.Engine = nil, &executor.EngineSpec{}
	require.ErrorContains(t, a.host.Apply(t.Context(), []executor.Work{listed}), "the spec does not match kind")
	raw, err := os.ReadFile(a.path("assignment.json"))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"desired":"running"`)
	a.reach(executor.PhaseRunning)
}
