package jobs_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func crew(name string) authn.Caller {
	return user(name, authn.RoleOperator, authn.ProjectRole{Project: "prj_crew", Role: authn.ProjectEditor},
		authn.ProjectRole{Project: "prj_old", Role: authn.ProjectEditor})
}

func inCrew(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "crew" }

func (w *harness) quotas() jobsv1.QuotaServiceClient {
	return jobsv1.NewQuotaServiceClient(w.dial("gateway"))
}

func (w *harness) limit(kind, subject string, gpus int32) {
	w.t.Helper()
	_, err := w.quotas().PutQuota(w.as(admin()), &jobsv1.PutQuotaRequest{SubjectKind: kind, Subject: subject, GpuLimit: &gpus})
	require.NoError(w.t, err)
}

func TestTeamQuotaQueuesJobs(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("gpu"), gpuNode(8))
	w.limit("teams", "crew", 1)
	submit := func(who authn.Caller, change ...func(*jobsv1.SubmitJobRequest)) *jobsv1.Job {
		j, err := w.jobs().SubmitJob(w.as(who), w.request(append(change, oneGPU)...))
		require.NoError(t, err)
		return j
	}
	submit(crew("ann"), inCrew)
	a.attempt()
	waits := submit(crew("bob"), inCrew)
	require.Eventually(t, func() bool {
		j, err := w.jobs().GetJob(w.as(crew("bob")), &jobsv1.GetJobRequest{JobId: waits.GetId()})
		return err == nil && j.GetQueue().GetReason() == "team_quota"
	}, patience, 20*time.Millisecond)
	works := func(n int) func([]*jobsv1.Work) bool {
		return func(works []*jobsv1.Work) bool { return len(works) == n }
	}
	submit(crew("bob"))
	a.wait("a job of the default project, which does not count against the team", works(2))
	list, err := w.quotas().ListQuotas(w.as(admin()), &jobsv1.ListQuotasRequest{SubjectKind: "teams"})
	require.NoError(t, err)
	want := &jobsv1.Quota{SubjectKind: "teams", Subject: "crew", GpuLimit: 1, GpuHeld: 1, GpuQueued: 1}
	require.Equal(t, want.String(), list.GetQuotas()[0].String())
	w.limit("teams", "crew", 2)
	a.wait("the waiting job", works(3))
	me, err := w.quotas().GetQuota(w.as(crew("bob")), &jobsv1.GetQuotaRequest{})
	require.NoError(t, err)
	want = &jobsv1.Quota{SubjectKind: "users", Subject: "bob", GpuLimit: 8, GpuHeld: 2, GpuAvailable: 6}
	require.Equal(t, want.String(), me.String())
}

func TestTeamQuotaRefusal(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.join(w.fleet("gpu"), gpuNode(8))
	w.limit("teams", "crew", 0)
	_, err := w.jobs().SubmitJob(w.as(crew("ann")), w.request(inCrew, oneGPU))
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	require.Equal(t, "quota", fault.From(err).Code)
	require.ErrorContains(t, err, "quota: requested 1 GPUs, 0 available")
	_, err = w.jobs().SubmitJob(w.as(crew("ann")), w.request(oneGPU, func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "old" }))
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.ErrorContains(t, err, "project: project old is archived")
	require.Zero(t, w.count("job"))
	for _, who := range []authn.Caller{crew("ann"), alice()} {
		_, err = w.quotas().PutQuota(w.as(who), &jobsv1.PutQuotaRequest{SubjectKind: "users", Subject: "ann"})
		require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
		_, err = w.quotas().ListQuotas(w.as(who), &jobsv1.ListQuotasRequest{SubjectKind: "users"})
		require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	}
	_, err = w.quotas().ListQuotas(w.as(admin()), &jobsv1.ListQuotasRequest{SubjectKind: "pools"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// TestLimitsHoldWhileLimitsChange submits 40 jobs of two users of one team at once to two replicas, and ends each job
// when it is placed. Meanwhile it changes every limit again and again. A trigger records every increase above the
// limit in force, and checkLedger compares the ledger with a recount.
func TestLimitsHoldWhileLimitsChange(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.DefaultGPULimit, c.DefaultTeamGPULimit = 3, 4 })
	w.watchGrowth()
	second := w.replica()
	defer second()
	a := w.join(w.fleet("gpu"), gpuNode(8))
	watch, stop := context.WithCancel(t.Context())
	var others, submitted sync.WaitGroup
	others.Go(func() { w.checkLedger(watch) })
	others.Go(func() {
		for i := 0; watch.Err() == nil; i++ {
			subject := [][2]string{{"users", "ann"}, {"users", "bob"}, {"teams", "crew"}}[i%3]
			gpus := 1 + rand.Int32N(4)
			_, err := w.quotas().PutQuota(w.as(admin()), &jobsv1.PutQuotaRequest{SubjectKind: subject[0], Subject: subject[1], GpuLimit: &gpus})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	client := w.jobs()
	for i := range 40 {
		who := crew([]string{"ann", "bob"}[i%2])
		submitted.Go(func() {
			if _, err := client.SubmitJob(w.as(who), w.request(inCrew, oneGPU)); err != nil {
				t.Error(err)
			}
		})
	}
	for range 40 {
		a.exit(a.attempt(), 0, "", "")
	}
	submitted.Wait()
	require.Eventually(t, func() bool { return w.count(`job WHERE state <> 'succeeded'`) == 0 }, patience, 20*time.Millisecond)
	stop()
	others.Wait()
	require.Zero(t, w.count(`overstep`))
	require.Zero(t, w.count(`account WHERE held <> 0`), "all GPUs must be released")
	require.Equal(t, 3, w.count(`account`), "ann, bob and their team must have one account each")
	require.Equal(t, 40, w.count("attempt"))
}

// watchGrowth installs a trigger that records every increase of the column held to a value above the limit.
func (w *harness) watchGrowth() {
	w.t.Helper()
	_, err := w.db.OwnerPool(jobs.Name).Exec(w.t.Context(), `CREATE TABLE overstep (what text);
		CREATE FUNCTION grown() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO jobs.overstep VALUES (NEW.user_id || ' holds ' || NEW.held); RETURN NEW; END $$;
		CREATE TRIGGER grown BEFORE UPDATE ON account FOR EACH ROW
			WHEN (NEW.held > OLD.held AND NEW.held > coalesce(NEW.set_limit, CASE NEW.kind WHEN 'team' THEN 4 ELSE 3 END))
			EXECUTE FUNCTION grown();
		GRANT SELECT ON overstep TO PUBLIC`)
	require.NoError(w.t, err)
}

// checkLedger compares the ledger with a recount until ctx ends.
func (w *harness) checkLedger(ctx context.Context) {
	checks := 0
	for ctx.Err() == nil {
		wrong := w.count(`account a WHERE held > 4 OR held <> (SELECT coalesce(sum(t.held), 0) FROM attempt t JOIN job j ON j.id = t.job_id
			WHERE a.user_id = CASE a.kind WHEN 'team' THEN j.team_id ELSE j.owner_id END)`)
		if wrong > 0 {
			w.t.Error("the ledger differs from what the attempts hold")
		}
		checks++
	}
	if checks == 0 {
		w.t.Error("the ledger was never checked")
	}
}
