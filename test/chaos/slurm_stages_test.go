package chaos

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// slurmStage is a stage of an attempt on Slurm at which the agent is killed.
type slurmStage struct {
	name string
	// sbatch is what the agent's sbatch does, see gatedSbatch; empty if it does as usual.
	sbatch string
	// held is true if Slurm holds the job, because another job has all GPUs.
	held bool
	// reach brings the job to the stage. The agent is killed as soon as it returns.
	reach func(*slurmJob, context.Context)
	// after is called once the next agent has started.
	after func(*slurmJob, context.Context)
	// stopped is true if the job ends by a stop, and starts is how often each rank runs its command.
	stopped bool
	starts  int
}

// secondSbatch is the order for an sbatch that arrives when the next agent has submitted the attempt again. The commands
// of such a job run until both have arrived.
const secondSbatch = "second"

// slurmStages returns all stages, in the order in which an attempt passes them. The rows of CI and of the runs by hand
// differ only in how often each stage occurs.
func slurmStages() []slurmStage {
	return []slurmStage{
		{name: "before_sbatch", sbatch: "never", reach: (*slurmJob).awaitSbatch, after: (*slurmJob).finish, starts: 1},
		{name: "during_sbatch", sbatch: "late", reach: (*slurmJob).awaitSbatch, after: (*slurmJob).finish, starts: 1},
		{name: "sbatch_arrives_second", sbatch: secondSbatch, reach: (*slurmJob).awaitSbatch, after: func(*slurmJob, context.Context) {}, starts: 1},
		{name: "before_id_is_recorded", sbatch: "unanswered", reach: (*slurmJob).awaitSbatch, after: (*slurmJob).finish, starts: 1},
		{name: "held", held: true, reach: (*slurmJob).awaitHeld, after: (*slurmJob).letStart, starts: 1},
		{name: "held_before_id_is_recorded", sbatch: "unanswered", held: true, reach: (*slurmJob).awaitSbatch, after: (*slurmJob).startAdopted, starts: 1},
		{name: "stop_while_held", held: true, reach: (*slurmJob).stopHeld, after: (*slurmJob).letStart, stopped: true},
		{name: "start", reach: (*slurmJob).awaitClaim, after: (*slurmJob).finish, starts: 1},
		{name: "running", reach: (*slurmJob).awaitRunning, after: (*slurmJob).finish, starts: 1},
		{name: "end_before_exit_is_read", reach: (*slurmJob).endUnread, after: (*slurmJob).finish, starts: 1},
		{name: "collecting", reach: (*slurmJob).awaitEnd, after: (*slurmJob).finish, starts: 1},
		{name: "stop", reach: (*slurmJob).stopRunning, after: (*slurmJob).finishStop, stopped: true, starts: 1},
		{name: "drawn_moment", reach: (*slurmJob).awaitMoment, after: (*slurmJob).finish, starts: 1},
	}
}

// awaitSbatch waits until the agent's sbatch is where the stage wants it.
func (j *slurmJob) awaitSbatch(ctx context.Context) {
	j.k.s.Until(ctx, "sbatch of the job is called", func() bool { return exists(j.k.gate("reached")) })
}

// awaitHeld waits until Slurm holds the job and the job shows Slurm's own reason for that.
func (j *slurmJob) awaitHeld(ctx context.Context) {
	j.k.s.Until(ctx, "the job shows the reason of Slurm", func() bool {
		now, of := j.get(ctx), j.slurmJobs(ctx)
		if now.Queue == nil || len(of) != 1 || now.Queue.Reason != of[0].Reason {
			return false
		}
		require.Equal(j.k, []string{"scheduled", "PENDING"}, []string{now.State, of[0].State})
		return slices.Contains([]string{"Resources", "Priority"}, of[0].Reason)
	})
}

// letStart empties the cluster, so that the job starts, and ends it.
func (j *slurmJob) letStart(ctx context.Context) {
	j.k.empty(ctx)
	j.finish(ctx)
}

// startAdopted lets the job start once the next agent has found it by its comment. As long as it is held, nothing else
// shows that it exists.
func (j *slurmJob) startAdopted(ctx context.Context) {
	j.awaitFile(ctx, "slurm.json")
	j.letStart(ctx)
}

func (j *slurmJob) stopHeld(ctx context.Context) {
	j.awaitHeld(ctx)
	j.stop(ctx)
}

// stop requests the stop of the job and waits until its agent has received the request.
func (j *slurmJob) stop(ctx context.Context) {
	require.NoError(j.k, j.l.Client.Do(ctx, http.MethodPost, "/api/jobs/"+j.l.Job.ID+"/stop", nil, nil))
	j.awaitFile(ctx, "stop.json")
}

// awaitClaim waits until the Slurm job has claimed the attempt.
func (j *slurmJob) awaitClaim(ctx context.Context) { j.awaitFile(ctx, "claim.json") }

// awaitRunning waits until all ranks run their commands.
func (j *slurmJob) awaitRunning(ctx context.Context) {
	j.k.s.Until(ctx, "all ranks run", func() bool { return len(j.starts()) == j.nodes })
}

// endUnread ends the commands while the agent is frozen.
func (j *slurmJob) endUnread(ctx context.Context) {
	j.awaitRunning(ctx)
	j.awaitFolder(ctx)
	j.k.agent.Signal(syscall.SIGSTOP)
	j.finish(ctx)
	j.k.s.Until(ctx, "all ranks have an exit", func() bool {
		exits, err := filepath.Glob(filepath.Join(j.folder, "rank-*", "exit.json"))
		require.NoError(j.k, err)
		return len(exits) == j.nodes
	})
	require.NoFileExists(j.k, filepath.Join(j.folder, "end.json"))
}

// awaitEnd ends the commands and waits until the agent has recorded the end. It then collects the results.
func (j *slurmJob) awaitEnd(ctx context.Context) {
	j.awaitRunning(ctx)
	j.awaitFolder(ctx)
	j.finish(ctx)
	j.awaitFile(ctx, "end.json")
}

// stopRunning requests the stop. The commands do not end before finishStop.
func (j *slurmJob) stopRunning(ctx context.Context) {
	j.awaitRunning(ctx)
	j.stop(ctx)
}

func (j *slurmJob) finishStop(context.Context) { j.mark("stopped") }

// awaitMoment waits for a drawn time. The commands end by themselves.
func (j *slurmJob) awaitMoment(ctx context.Context) {
	j.finish(ctx)
	const most = 3 * time.Second
	wait := time.Duration(j.k.random.Int64N(int64(most)))
	j.k.Logf("killing the agent %s after the submission", wait)
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// finish lets the commands of the job end.
func (j *slurmJob) finish(context.Context) { j.mark("go") }

// mark creates a file in the folder of the job's commands.
func (j *slurmJob) mark(name string) {
	j.k.Helper()
	require.NoError(j.k, os.WriteFile(filepath.Join(j.dir, name), nil, 0o600))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
