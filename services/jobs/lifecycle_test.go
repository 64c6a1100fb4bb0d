package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func nobody() authn.Caller { return authn.Caller{Kind: authn.KindNone} }

// reports sends a lifecycle event of an attempt to the service, as ingest does.
func (w *harness) reports(j *jobsv1.Job, attempt int32, event string) (*jobspeerv1.ReportLifecycleResponse, error) {
	return w.runPeer().ReportLifecycle(w.t.Context(), &jobspeerv1.ReportLifecycleRequest{
		RunId: j.GetRunId(), Attempt: attempt, Event: event, Ts: timestamppb.Now(),
	})
}

func TestJobLifecycle(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	require.Equal(t, jobsv1.JobState_JOB_STATE_QUEUED, j.GetState())
	require.NotNil(t, j.GetQueue())

	work := a.attempt()
	spec := work.GetAttempt()
	require.Equal(t, j.GetRunId(), spec.GetRunId())
	require.EqualValues(t, 1, spec.GetAttempt())
	require.Equal(t, []string{"python", "-m", "chat_tiny.train"}, spec.GetCommand())
	require.Equal(t, "http://signalbox.example/api/ingest", spec.GetIngestEndpoint())
	require.JSONEq(t, `{"optim.lr": 0.004}`, string(spec.GetHparams()))
	require.Equal(t, "0", spec.GetEnv()["SERVICE_JOB_NODE_RANK"])
	require.Len(t, spec.GetDatasets(), 1)
	require.Nil(t, w.get(j.GetId()).GetQueue())

	a.see(work, jobsv1.Phase_PHASE_PREPARING)
	started := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	require.Nil(t, started.GetRunningAt())
	tok, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
		WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(),
	})
	require.NoError(t, err)
	grant, err := w.runPeer().ResolveIngestToken(t.Context(), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(tok.GetToken())})
	require.NoError(t, err)
	require.Equal(t, j.GetRunId(), grant.GetRunId())
	require.True(t, grant.GetCurrent())
	require.False(t, grant.GetContainer())

	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	marked := w.awaitJob(j.GetId(), "marked by the executor", func(j *jobsv1.Job) bool { return j.GetExecutorRunningAt() != nil })
	require.Equal(t, jobsv1.JobState_JOB_STATE_STARTING, marked.GetState(), "the job must be starting until training reports that it runs")
	for range 2 {
		_, err = w.reports(j, 1, "running")
		require.NoError(t, err)
	}
	running := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_RUNNING)
	require.NotNil(t, running.GetRunningAt())
	_, err = w.reports(j, 1, "succeeded")
	require.NoError(t, err)
	require.Equal(t, jobsv1.JobState_JOB_STATE_RUNNING, w.get(j.GetId()).GetState(), "the job must be running until its processes have ended")

	a.exit(work, 0, "", "")
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	require.Equal(t, "completed", ended.GetEndReason())
	require.Empty(t, ended.GetWarnings())
	closed := <-w.ingest.closed
	require.Equal(t, j.GetRunId(), closed.GetRunId())
	require.Equal(t, "succeeded", closed.GetState())
	a.wait("desired gone", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_GONE
	})
	a.forget(work)
	a.wait("no work", func(works []*jobsv1.Work) bool { return len(works) == 0 })

	run, err := w.runs().GetRun(w.as(alice()), &jobsv1.GetRunRequest{RunId: j.GetRunId()})
	require.NoError(t, err)
	require.Equal(t, jobsv1.JobState_JOB_STATE_SUCCEEDED, run.GetState())
	require.NotNil(t, run.GetStartedAt())
	require.NotNil(t, run.GetEndedAt())
}
