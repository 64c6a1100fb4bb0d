package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// fail ends the job's attempt with a reported message and an exit message.
func (w *harness) fail(a *agent, j *jobsv1.Job, reported, exit string) {
	w.t.Helper()
	work := w.running(a, j)
	if reported != "" {
		_, err := w.runPeer().ReportLifecycle(w.t.Context(), &jobspeerv1.ReportLifecycleRequest{
			RunId: j.GetRunId(), Attempt: 1, Event: "failed", Message: reported,
		})
		require.NoError(w.t, err)
	}
	a.exit(work, 3, "", exit)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_FAILED)
}

// Messages of a protected run may contain records of its dataset. This applies to the messages that its processes
// report and to those in which the agent describes how the processes ended.
func TestProtectedJob_messagesAreWithheld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported, exit, message string
	}{
		"reported failure": {"plänted", "planted", "the message is withheld, because the run is protected; it has 7 characters"},
		"exit message":     {"", "planted", "the command ended with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t)
			a := w.join(w.fleet("cpu"), cpuNode())
			j := w.protected()
			w.fail(a, j, c.reported, c.exit)
			ended := w.get(j.GetId())
			require.Equal(t, c.message, ended.GetMessage())
			as := w.as(authn.Caller{Kind: authn.KindUser, Subject: "usr_root", Role: authn.RoleAdmin})
			events, err := w.jobs().ListJobEvents(as, &jobsv1.ListJobEventsRequest{JobId: j.GetId()})
			require.NoError(t, err)
			attempts, err := w.jobs().ListAttempts(as, &jobsv1.ListAttemptsRequest{JobId: j.GetId()})
			require.NoError(t, err)
			seen := []proto.Message{ended, events, attempts}
			for _, m := range w.watch(j.GetId(), 0) {
				seen = append(seen, m)
			}
			for _, m := range seen {
				require.NotRegexp(t, "pl.nted", protojson.Format(m))
			}
		})
	}
}

// A retry continues from data of a protected run. It is therefore protected, too, even if its datasets no longer are.
func TestProtectedJob_retryStaysProtected(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.protected()
	w.fail(a, j, "", "")
	w.catalog.release("ds/default/protected@1")
	again, err := w.jobs().RetryJob(w.as(alice()), &jobsv1.RetryJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	for _, one := range []*jobsv1.Job{j, again} {
		run, err := w.runs().GetRun(w.as(alice()), &jobsv1.GetRunRequest{RunId: one.GetRunId()})
		require.NoError(t, err)
		require.True(t, run.GetProtected())
		owner, err := w.runPeer().GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: one.GetId()})
		require.NoError(t, err)
		require.Equal(t, []string{"dst_of_train"}, owner.GetProtectedDatasets())
	}
}
