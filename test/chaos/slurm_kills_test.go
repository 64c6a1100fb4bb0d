package chaos

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// slurmKills returns how often the agent of a Slurm cluster is killed: CHAOS_SLURM times, otherwise 20 times.
func slurmKills(t *testing.T) int {
	t.Helper()
	const usual = 20
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CHAOS_SLURM"), strconv.Itoa(usual)))
	require.NoError(t, err, "CHAOS_SLURM must be a number")
	return n
}

// selectStages returns n stages in the order of the kills. All stages occur equally often, or once more. Stages before
// sbatch come first, because the next agent waits for ten seconds until it submits such a job again.
func selectStages(all []slurmStage, n int, random *rand.Rand) (rows []slurmStage) {
	for len(rows) < n {
		more := slices.Clone(all)
		random.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		rows = append(rows, more[:min(len(more), n-len(rows))]...)
	}
	slices.SortStableFunc(rows, func(a, b slurmStage) int {
		return cmp.Compare(slices.Index(slowSbatch(), b.sbatch), slices.Index(slowSbatch(), a.sbatch))
	})
	return rows
}

func slowSbatch() []string { return []string{"never", secondSbatch} }

// TestSlurm_killedAgent kills the agent of a Slurm cluster in each stage of an attempt. The next agent must find the
// attempt: it ends in its first attempt, each rank has run its command once, and no Slurm job is left.
func TestSlurm_killedAgent(t *testing.T) {
	n := slurmKills(t)
	const each = 10 * time.Second // maximum time for each kill, with a reserve for busy machines
	ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout+time.Duration(n)*each)
	defer cancel()
	k := startSlurm(ctx, t, map[string]string{"SERVICE_JOBS_DEFAULT_GPU_LIMIT": "100"})
	k.random = rand.New(rand.NewPCG(draw.Seed(t), 1))
	rows := selectStages(slurmStages(), n, k.random)
	kills, late := map[string]int{}, map[string]int{}
	began := time.Now()
	for i, stage := range rows {
		if stage.held {
			k.fill(ctx)
		}
		j := k.submit(ctx, stage, 1+i%2)
		stage.reach(j, ctx)
		k.agent.Kill()
		kills[stage.name]++
		if j.over(ctx) {
			late[stage.name]++
		}
		k.agent.Start()
		stage.after(j, ctx)
		k.finishSecond(ctx)
	}
	k.Logf("%d kills in %s: %v, of these after the end of the job: %v", n, time.Since(began).Round(time.Second), kills, late)
	k.requireWhole(ctx)
	k.Logf("all %d jobs have ended after %s", n, time.Since(began).Round(time.Second))
}

// finishSecond ends the commands of the jobs whose submissions have both arrived. It returns false if others are left.
func (k *slurmKiller) finishSecond(ctx context.Context) (all bool) {
	k.Helper()
	all = true
	for _, j := range k.jobs {
		if j.stage.sbatch != secondSbatch || exists(filepath.Join(j.dir, "go")) {
			continue
		}
		if len(j.slurmJobs(ctx)) < 2 {
			all = false
			continue
		}
		j.finish(ctx)
	}
	return all
}

// arrivalTime is the time within which both submissions of a job must arrive after the last kill.
const arrivalTime = time.Minute

// requireSecond requires that both submissions of a job arrive: the second of them comes from the killed agent's sbatch,
// ten seconds after the kill or later.
func (k *slurmKiller) requireSecond(ctx context.Context) {
	k.Helper()
	soon, cancel := context.WithTimeout(ctx, arrivalTime)
	defer cancel()
	k.s.Until(soon, "both submissions have arrived", func() bool { return k.finishSecond(ctx) })
}

// submissions returns how often the job reaches Slurm.
func (j *slurmJob) submissions() int {
	if j.stage.sbatch == secondSbatch {
		return 2
	}
	return 1
}

// requireWhole requires that each job ends in its first attempt, that each of its ranks has run once, that no submission
// was repeated although it had arrived, and that Slurm has no job of the agent soon after that.
func (k *slurmKiller) requireWhole(ctx context.Context) {
	k.Helper()
	k.requireSecond(ctx)
	for _, j := range k.jobs {
		want := "succeeded"
		if j.stage.stopped {
			want = "stopped"
		}
		require.NoError(k, j.l.AwaitState(ctx, "succeeded", "failed", "stopped"), k.s.Tail())
		now := j.get(ctx)
		require.Equal(k, want, now.State, "%s of %d nodes: %s%s", j.stage.name, j.nodes, now.Message, k.s.Tail())
		require.LessOrEqual(k, now.Attempt, 1, j.stage.name)
		var ranks []string
		for range j.stage.starts {
			for rank := range j.nodes {
				ranks = append(ranks, strconv.Itoa(rank))
			}
		}
		require.ElementsMatch(k, ranks, j.starts(), "%s of %d nodes: each rank must run once", j.stage.name, j.nodes)
		require.Len(k, j.slurmJobs(ctx), j.submissions(), "%s of %d nodes", j.stage.name, j.nodes)
	}
	soon, cancel := context.WithTimeout(ctx, orphanTime)
	defer cancel()
	k.s.Until(soon, "no Slurm job of the agent is left", func() bool { return len(k.left(ctx)) == 0 })
}

// Every stage occurs, whatever the seed, and equally often if there are enough kills.
func TestSelectStages(t *testing.T) {
	t.Parallel()
	all := slurmStages()
	for seed := range uint64(50) {
		for _, n := range []int{20, 200} {
			rows := selectStages(all, n, rand.New(rand.NewPCG(seed, 1)))
			require.Len(t, rows, n)
			seen := map[string]int{}
			for _, r := range rows {
				seen[r.name]++
			}
			for _, s := range all {
				require.GreaterOrEqual(t, seen[s.name], n/len(all), s.name)
			}
		}
	}
}
