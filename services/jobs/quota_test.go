package jobs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func oneGPU(r *jobsv1.SubmitJobRequest) {
	one := int32(1)
	r.Spec.Resources.Pools[0] = &jobsv1.PoolRequest{Pool: "gpu", GpusPerNode: &one}
}

func (w *harness) held() (held, limit int) {
	err := w.pool.QueryRow(w.t.Context(), `SELECT coalesce(max(held), 0), coalesce(max(gpu_limit), 0) FROM account`).Scan(&held, &limit)
	require.NoError(w.t, err)
	return held, limit
}

// TestQuotaConcurrentSubmissionsTwoReplicas submits 50 jobs at once to two replicas and ends each job when it is
// placed. Meanwhile it reads the ledger.
func TestQuotaConcurrentSubmissionsTwoReplicas(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.DefaultGPULimit = 4 })
	second := w.replica()
	defer second()
	a := w.join(w.fleet("gpu"), gpuNode(8))
	watch, stop := context.WithCancel(t.Context())
	var highest int
	var reads sync.WaitGroup
	reads.Go(func() {
		for watch.Err() == nil {
			held, _ := w.held()
			highest = max(highest, held)
		}
	})
	var submitted sync.WaitGroup
	client := w.jobs()
	for range 50 {
		submitted.Go(func() {
			if _, err := client.SubmitJob(w.as(alice()), w.request(oneGPU)); err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		work := a.attempt()
		a.exit(work, 0, "", "")
	}
	submitted.Wait()
	require.Eventually(t, func() bool { return w.count(`job WHERE state <> 'succeeded'`) == 0 }, patience, 20*time.Millisecond)
	stop()
	reads.Wait()
	require.LessOrEqual(t, highest, 4)
	require.Positive(t, highest)
	held, limit := w.held()
	require.Zero(t, held, "all GPUs must be released")
	require.Equal(t, 4, limit)
	require.Equal(t, 50, w.count("attempt"))
	require.Zero(t, w.count(`attempt WHERE held <> 0`))
	require.Zero(t, w.count(`(SELECT job_id FROM attempt GROUP BY job_id HAVING count(*) > 1) doubled`), "no job must run twice")
}

// replica runs the workers of a second instance over the same database.
func (w *harness) replica() (stop func()) {
	w.t.Helper()
	svc, err := jobs.New(w.t.Context(), w.cfg, w.deps)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	var done sync.WaitGroup
	for _, worker := range svc.Workers() {
		done.Go(func() { _ = worker.Run(ctx) })
	}
	return func() {
		cancel()
		done.Wait()
	}
}

func TestQuotaWaitReason(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.DefaultGPULimit = 2 })
	a := w.join(w.fleet("gpu"), gpuNode(8))
	first := w.submit(oneGPU)
	a.attempt()
	two := w.submit(func(r *jobsv1.SubmitJobRequest) {
		n := int32(2)
		r.Spec.Resources.Pools[0] = &jobsv1.PoolRequest{Pool: "gpu", GpusPerNode: &n}
	})
	require.Eventually(t, func() bool { return w.get(two.GetId()).GetQueue().GetReason() == "account_quota" }, patience, 20*time.Millisecond)
	queue := w.get(two.GetId()).GetQueue()
	require.Equal(t, "the job needs 2 GPUs, but the account already holds 1 of its 2", queue.GetReasonDetail())
	require.EqualValues(t, 1, queue.GetPosition())
	peer := jobspeerv1.NewQuotaPeerServiceClient(w.dial("auth"))
	q, err := peer.GetAccountQuota(t.Context(), &jobspeerv1.GetAccountQuotaRequest{UserId: "usr_alice"})
	require.NoError(t, err)
	require.Equal(t, [4]int32{2, 1, 2, 1}, [4]int32{q.GetGpuLimit(), q.GetGpuHeld(), q.GetGpuQueued(), q.GetGpuAvailable()})
	q, err = peer.GetAccountQuota(t.Context(), &jobspeerv1.GetAccountQuotaRequest{UserId: "usr_new"})
	require.NoError(t, err)
	require.Equal(t, [4]int32{2, 0, 0, 2}, [4]int32{q.GetGpuLimit(), q.GetGpuHeld(), q.GetGpuQueued(), q.GetGpuAvailable()})
	_, err = w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: first.GetId()})
	require.NoError(t, err)
	work := a.wait("desired stopped", stopped)[0]
	a.exit(work, -1, "stopped", "")
	a.wait("the waiting job", func(works []*jobsv1.Work) bool {
		for _, x := range works {
			if x.GetAttempt().GetLimits().GetGpus() == 2 {
				return true
			}
		}
		return false
	})
}

func TestGangRunsAndEndsTogether(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("gpu")
	a, b := w.join(fleet, gpuNode(2)), w.join(fleet, gpuNode(2))
	j := w.submit(func(r *jobsv1.SubmitJobRequest) {
		two := int32(2)
		r.Spec.Resources.Pools[0] = &jobsv1.PoolRequest{Pool: "gpu", Nodes: &two, GpusPerNode: &two}
	})
	x, y := a.attempt(), b.attempt()
	ranks := x.GetAttempt().GetEnv()["SERVICE_JOB_NODE_RANK"] + y.GetAttempt().GetEnv()["SERVICE_JOB_NODE_RANK"]
	require.Contains(t, []string{"01", "10"}, ranks)
	require.Equal(t, "2", x.GetAttempt().GetEnv()["SERVICE_JOB_NNODES"])
	require.Equal(t, "2", x.GetAttempt().GetEnv()["SERVICE_JOB_GPUS_PER_NODE"])
	a.see(x, jobsv1.Phase_PHASE_RUNNING)
	require.Nil(t, w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING).GetExecutorRunningAt())
	b.see(y, jobsv1.Phase_PHASE_RUNNING)
	w.awaitJob(j.GetId(), "marked", func(j *jobsv1.Job) bool { return j.GetExecutorRunningAt() != nil })
	a.exit(x, 7, "", "")
	b.wait("desired stopped with the other node", stopped)
	b.exit(y, -1, "stopped", "")
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_FAILED)
	require.Equal(t, "user_error", ended.GetEndReason())
	require.Contains(t, ended.GetMessage(), "exit code 7")
	held, _ := w.held()
	require.Zero(t, held)
}
