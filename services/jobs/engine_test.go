package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func engineOrder(generation int64, desired jobsv1.Desired) *jobspeerv1.PutWorkRequest {
	return &jobspeerv1.PutWorkRequest{
		WorkId: "wrk_engine", Generation: generation, Desired: desired, Pool: "cpu", OwnerId: "usr_alice", ProjectId: "prj_default",
		Engine: &jobsv1.EngineSpec{
			DeploymentId: "dep_1", RevisionId: "rev_1", RevisionNumber: int32(generation), Driver: "llamacpp",
			Model: []*jobsv1.ObjectRef{{Path: "m.gguf", Uri: "blob://runs/m.gguf"}},
		},
	}
}

// watchEngines opens the registry's watch of engines. The returned function waits for a status for which ok is true.
func (w *harness) watchEngines() func(what string, ok func(*jobspeerv1.WorkStatus) bool) *jobspeerv1.WorkStatus {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*patience)
	w.t.Cleanup(cancel)
	stream, err := w.works().WatchWorks(ctx, &jobspeerv1.WatchWorksRequest{})
	require.NoError(w.t, err)
	return func(what string, ok func(*jobspeerv1.WorkStatus) bool) *jobspeerv1.WorkStatus {
		w.t.Helper()
		for {
			m, err := stream.Recv()
			require.NoError(w.t, err, what)
			if ok(m) {
				return m
			}
		}
	}
}

func synced(s *jobspeerv1.WorkStatus) bool { return s.GetSynced() }

func TestEngineWorkLifecycle(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	next := w.watchEngines()
	next("the end of the first list", synced)
	put, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	require.True(t, put.GetChanged())
	put, err = w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	require.False(t, put.GetChanged())
	next("no capacity", func(s *jobspeerv1.WorkStatus) bool { return s.GetWaiting() == "no_capacity" })

	a := w.join(w.fleet("cpu"), cpuNode())
	work := a.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
	require.Equal(t, "llamacpp", work.GetEngine().GetDriver())
	placed := next("placed", func(s *jobspeerv1.WorkStatus) bool { return s.GetNodeId() == a.nodeID })
	require.Empty(t, placed.GetWaiting())
	signed, err := a.client.SignDownload(t.Context(), &jobsv1.SignDownloadRequest{
		WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(), Uri: "blob://runs/m.gguf",
	})
	require.NoError(t, err)
	require.NotEmpty(t, signed.GetUrl())

	a.see(work, jobsv1.Phase_PHASE_RUNNING, func(o *jobsv1.ObservedWork) {
		o.Engine = &jobsv1.EngineReport{Address: "http://127.0.0.1:9", ApiKey: "very-secret-key", Ready: true, Phase: "ready", Probes: []byte(`{}`)}
	})
	ready := next("ready", func(s *jobspeerv1.WorkStatus) bool { return s.GetObserved().GetEngine().GetReady() })
	require.Equal(t, "very-secret-key", ready.GetObserved().GetEngine().GetApiKey())
	var leaked int
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM work
		WHERE position('very-secret-key'::bytea in engine) > 0 OR position('very-secret-key'::bytea in engine_key) > 0`).Scan(&leaked))
	require.Zero(t, leaked, "the key must be stored encrypted")

	_, err = w.works().PutWork(t.Context(), engineOrder(0, jobsv1.Desired_DESIRED_GONE))
	require.True(t, fault.Is(err, fault.Conflict), "an older generation must be refused: %v", err)
	_, err = w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_GONE))
	require.NoError(t, err)
	a.wait("desired gone", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_GONE
	})
	a.forget(work)
	next("gone", func(s *jobspeerv1.WorkStatus) bool { return s.GetObserved().GetPhase() == jobsv1.Phase_PHASE_GONE })
	a.wait("no work", func(works []*jobsv1.Work) bool { return len(works) == 0 })
}

func TestEngineRestartedAfterAgentStop(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	_, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	first := a.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	a.exit(first, -1, "stopped", "")
	a.wait("the engine under a new fence", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetFence() > first.GetFence() && works[0].GetDesired() == jobsv1.Desired_DESIRED_RUNNING
	})
	// An engine that exited by itself is not started again, because the registry decides about its revision.
	second := a.wait("the engine", func(works []*jobsv1.Work) bool { return len(works) == 1 })[0]
	a.exit(second, 1, "", "cannot load the model")
	next := w.watchEngines()
	broken := next("broken", func(s *jobspeerv1.WorkStatus) bool { return s.GetObserved().GetPhase() == jobsv1.Phase_PHASE_EXITED })
	require.Equal(t, "cannot load the model", broken.GetObserved().GetExit().GetMessage())
	// A new generation is a new execution on the same node.
	_, err = w.works().PutWork(t.Context(), engineOrder(2, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	a.wait("the new generation", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetGeneration() == 2 && works[0].GetEngine().GetRevisionNumber() == 2
	})
	// Stopping the engine frees its capacity. Starting it again takes capacity again.
	third := a.wait("the engine", func(works []*jobsv1.Work) bool { return len(works) == 1 })[0]
	_, err = w.works().PutWork(t.Context(), engineOrder(2, jobsv1.Desired_DESIRED_STOPPED))
	require.NoError(t, err)
	a.wait("desired stopped", stopped)
	a.exit(third, 0, "stopped", "")
	a.wait("desired gone", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_GONE
	})
	_, err = w.works().PutWork(t.Context(), engineOrder(2, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	a.wait("desired running", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_RUNNING && works[0].GetFence() > third.GetFence()
	})
}

func TestEngineMovesOffFencedNode(t *testing.T) {
	t.Parallel()
	w := newHarness(t, quickFence)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	_, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	first := a.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	w.fence(a)
	b := w.join(fleet, cpuNode())
	second := b.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
	require.Equal(t, first.GetWorkId(), second.GetWorkId())
	require.Greater(t, second.GetFence(), first.GetFence())
	a.connect()
	works := a.wait("desired gone", func(works []*jobsv1.Work) bool { return len(works) == 1 })
	require.Equal(t, jobsv1.Desired_DESIRED_GONE, works[0].GetDesired())
	require.Equal(t, first.GetFence(), works[0].GetFence())
}

// TestEngineAfterRestore restores an earlier state of the database (of an engine and of its node's sessions) while the
// agent keeps running.
func TestEngineAfterRestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		desired jobsv1.Desired
		want    func(works []*jobsv1.Work) bool
	}{
		"desired running": {jobsv1.Desired_DESIRED_RUNNING, func(works []*jobsv1.Work) bool {
			return len(works) == 1 && works[0].GetFence() > 5 && works[0].GetDesired() == jobsv1.Desired_DESIRED_RUNNING
		}},
		"desired stopped": {jobsv1.Desired_DESIRED_STOPPED, func(works []*jobsv1.Work) bool {
			return len(works) == 1 && works[0].GetFence() > 5 && works[0].GetDesired() == jobsv1.Desired_DESIRED_STOPPED
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t)
			a := w.join(w.fleet("cpu"), cpuNode())
			_, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
			require.NoError(t, err)
			work := a.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
			a.see(work, jobsv1.Phase_PHASE_RUNNING)
			if c.desired != jobsv1.Desired_DESIRED_RUNNING {
				_, err = w.works().PutWork(t.Context(), engineOrder(1, c.desired))
				require.NoError(t, err)
			}
			_, err = w.pool.Exec(t.Context(), `UPDATE node SET session = 0`)
			require.NoError(t, err)
			// The stream from before the restore belongs to a session that the database does not have any more.
			require.Eventually(t, func() bool { a.heartbeat(); a.mu.Lock(); defer a.mu.Unlock(); return a.err != nil }, patience, 100*time.Millisecond)
			a.works[work.GetWorkId()].Generation, a.works[work.GetWorkId()].Fence = 3, 5
			a.connect()
			a.wait("a newer execution than the node has", c.want)
		})
	}
}

func TestPutWorkRefused(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	_, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_UNSPECIFIED))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	put, err := w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_GONE))
	require.NoError(t, err)
	require.False(t, put.GetChanged(), "an order to end an unknown work item must change nothing")
	_, err = w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_RUNNING))
	require.NoError(t, err)
	other := engineOrder(1, jobsv1.Desired_DESIRED_RUNNING)
	other.Engine.Driver = "command"
	_, err = w.works().PutWork(t.Context(), other)
	require.True(t, fault.Is(err, fault.Conflict), "another spec under the same generation must be refused: %v", err)
	_, err = w.works().PutWork(t.Context(), engineOrder(1, jobsv1.Desired_DESIRED_GONE))
	require.NoError(t, err)
	next := w.watchEngines()
	next("gone without being placed", func(s *jobspeerv1.WorkStatus) bool {
		return s.GetObserved().GetPhase() == jobsv1.Phase_PHASE_GONE
	})
	require.Equal(t, 1, w.count("work"))
}
