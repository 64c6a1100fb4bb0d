package reporting_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Each line lists the events that a run reports: `!` marks a conflict, `=` a repeat that changes nothing.
func TestOutside_Report_order(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	for name, c := range map[string]struct {
		events        []string
		state, reason string
	}{
		"in order":          {[]string{"starting", "running", "=running", "=starting", "succeeded"}, "succeeded", "completed"},
		"only the end":      {[]string{"failed", "=failed", "!succeeded", "!running", "!starting"}, "failed", "user_error"},
		"same end again":    {[]string{"running", "succeeded", "=succeeded", "!failed"}, "succeeded", "completed"},
		"nothing":           {nil, "running", ""},
		"starting repeated": {[]string{"starting", "=starting"}, "running", ""},
	} {
		made := h.create(&jobsv1.CreateRunRequest{Name: name})
		for _, e := range c.events {
			mark := e[0]
			if mark == '!' || mark == '=' {
				e = e[1:]
			}
			applied, err := h.report(made, e)
			require.Equal(t, mark == '!', fault.HasCode(err, "lifecycle"), "%s, %s: %v", name, e, err)
			require.Equal(t, mark != '!' && mark != '=', applied, "%s, %s", name, e)
		}
		id := made.GetRun().GetId()
		require.Equal(t, c.state+c.reason, h.text(`SELECT state || end_reason FROM run WHERE id = $1 AND (ended_at IS NULL) = (state = 'running')`, id), name)
		ended := c.reason != ""
		require.Equal(t, ended, len(h.closed) == 1, "the streams must be closed once: %s", name)
		h.closed = nil
		grant, err := h.resolve(t.Context(), made)
		require.NoError(t, err)
		require.Equal(t, ended, grant.GetEndedAt() != nil, name)
		require.True(t, grant.GetCurrent())
	}
	require.Equal(t, "run.failed user_error? running failed why", h.text(`SELECT type || ' ' || 'user_error? ' || from_state || ' ' || to_state || ' ' || message
		FROM event WHERE type = 'run.failed'`))
	_, err := h.report(h.create(&jobsv1.CreateRunRequest{Name: "n"}), "paused")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// A run without a job has no signals, and its checkpoints serve no attempt. Other unknown runs stay unknown.
func TestPeerServer_outsideRunHasNoSignals(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	made := h.create(&jobsv1.CreateRunRequest{Name: "n"})
	for id, known := range map[string]bool{made.GetRun().GetId(): true, "run_none": false} {
		signal, err := h.peer.NextSignal(t.Context(), &jobspeerv1.NextSignalRequest{RunId: id, Attempt: 1})
		_, err2 := h.peer.RecordCheckpoint(t.Context(), &jobspeerv1.RecordCheckpointRequest{RunId: id, Attempt: 1})
		require.Equal(t, known, err == nil && err2 == nil, "%s: %v, %v", id, err, err2)
		require.Equal(t, known, signal.GetSignal() == "none" && err == nil)
		_, err = h.peer.ReportLifecycle(t.Context(), &jobspeerv1.ReportLifecycleRequest{RunId: id, Attempt: 1, Event: "running"})
		require.Equal(t, known, err == nil, "%s: %v", id, err)
	}
}

// The event that ends a run takes effect when the streams of the run are closed.
func TestOutside_Commit_afterClosing(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	id := h.create(&jobsv1.CreateRunRequest{Name: "n"}).GetRun().GetId()
	var states []string
	h.outside.Finish = func(ctx context.Context, runID string) error {
		states = append(states, h.text(`SELECT state FROM run WHERE id = $1`, runID))
		end, err := h.outside.Decided(ctx, runID)
		require.NoError(t, err)
		require.Equal(t, "failed", string(end.Outcome.State))
		return h.outside.Commit(ctx, runID, true)
	}
	for range 2 {
		_, err := h.outside.Report(t.Context(), id, "failed", "why")
		require.NoError(t, err)
	}
	_, err := h.outside.Report(t.Context(), id, "succeeded", "")
	require.True(t, fault.HasCode(err, "lifecycle"), "%v", err)
	require.Equal(t, []string{"running"}, states)
	require.Equal(t, "failed user_error", h.text(`SELECT state || ' ' || end_reason FROM run WHERE id = $1 AND ended_at IS NOT NULL`, id))
	require.Equal(t, closed{id}, h.closed)
	require.Equal(t, "reported_failed why", h.text(`SELECT reason || ' ' || message FROM event WHERE subject_id = $1 AND type = 'run.failed'`, id))
	for _, other := range []string{id, "run_none"} {
		end, err := h.outside.Decided(t.Context(), other)
		require.NoError(t, err)
		require.Nil(t, end)
		require.NoError(t, h.outside.Commit(t.Context(), other, true))
	}
}

func TestOutside_EndSilent(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	quiet := h.create(&jobsv1.CreateRunRequest{Name: "quiet", SilenceS: new(int32(60))})
	busy := h.create(&jobsv1.CreateRunRequest{Name: "busy", SilenceS: new(int32(60))})
	usual := h.create(&jobsv1.CreateRunRequest{Name: "usual"})
	ended := h.create(&jobsv1.CreateRunRequest{Name: "ended", SilenceS: new(int32(60))})
	_, err := h.report(ended, "succeeded")
	require.NoError(t, err)
	h.closed = nil
	end := func(after time.Duration, since time.Time) {
		require.NoError(t, h.outside.EndSilent(pg.WithOffset(t.Context(), after), since))
		h.finish()
	}
	states := func() string { return h.text(`SELECT string_agg(name || ':' || state, ' ' ORDER BY name) FROM run`) }
	const all = "busy:running ended:succeeded quiet:running usual:running"
	end(59*time.Second, time.Time{})
	require.Equal(t, all, states())
	end(70*time.Second, time.Time{})
	require.Equal(t, all, states(), "a request may be noticed late")
	_, err = h.resolve(pg.WithOffset(t.Context(), time.Minute), busy)
	require.NoError(t, err)
	end(2*time.Minute, time.Now().Add(100*time.Second))
	require.Equal(t, all, states(), "the time before the service started must not count")
	end(2*time.Minute, time.Time{})
	require.Equal(t, "busy:running ended:succeeded quiet:failed usual:running", states())
	require.Equal(t, closed{quiet.GetRun().GetId()}, h.closed)
	require.Equal(t, "silent", h.text(`SELECT end_reason FROM run WHERE id = $1 AND ended_at IS NOT NULL`, quiet.GetRun().GetId()))
	_, err = h.report(quiet, "succeeded")
	require.True(t, fault.HasCode(err, "lifecycle"), "%v", err)
	end(25*time.Hour, time.Time{})
	require.Equal(t, "busy:failed ended:succeeded quiet:failed usual:failed", states())
	require.NotNil(t, usual)
}
