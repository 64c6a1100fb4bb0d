package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// slurmPool is the pool of the jobs that run on Slurm.
const slurmPool = "slurm"

// slurmKiller kills the agent of a Slurm cluster.
type slurmKiller struct {
	*testing.T

	s       *testenv.Installation
	cluster *slurmtest.Cluster
	l       *e2eflow.Loop // signed in as admin
	agent   *testenv.SlurmAgent
	bin     string // the folder of the agent's own sbatch
	random  *rand.Rand
	filler  string // the id of the job that fills the cluster, or empty
	jobs    []*slurmJob
}

// slurmJob is a job that runs on Slurm.
type slurmJob struct {
	k     *slurmKiller
	l     *e2eflow.Loop
	stage slurmStage
	nodes int
	// dir is the folder in which the commands of the job leave marks. folder is the folder `run` of the work.
	dir, folder string
}

// slurmCommand is the command of a job. It writes its rank to the file starts, and ends when the file go exists. After a
// SIGTERM, it ends when the file stopped exists.
const slurmCommand = `cd "$0"; trap 'until [ -e stopped ]; do sleep 0.1; done; exit 0' TERM
echo "$SERVICE_JOB_NODE_RANK" >> starts; until [ -e go ]; do sleep 0.1; done`

// gatedSbatch is the agent's sbatch. If the file armed exists, it waits for the file job, and takes the order in armed if
// it submits the job named there. It then creates the file reached, waits until the agent is dead, and
// follows the order: never submits nothing; unanswered has submitted before; late submits a second later; second
// submits after the next agent has submitted the same job. The real sbatch writes to the script, because it would fail
// after its submission if the agent was killed meanwhile. The arguments in its text are its folder and the real sbatch.
const gatedSbatch = `#!/bin/sh
cd '%s' || exit
for word; do case $word in --job-name=*) name=${word#*=} ;; esac; done
order=
if [ -e armed ]; then
	until [ -e job ]; do sleep 0.02; done
	if [ "$name" = "signalbox-$(cat job)-1" ]; then mv armed taken && order=$(cat taken); fi
fi
if [ "$order" = unanswered ]; then '%[2]s' "$@" > output || exit; fi
if [ "$order" ]; then
	: > reached
	while read -r _ _ _ parent _ < /proc/$$/stat && [ "$parent" = "$PPID" ]; do sleep 0.02; done
fi
case $order in
never|unanswered) exit 1 ;;
late) sleep 1 ;;
second) until [ -e "submitted-$name" ]; do sleep 0.1; done ;;
esac
answer=$('%[2]s' "$@") && : > "submitted-$name" && echo "$answer"
`

// startSlurm starts an installation with a cluster of two nodes and an agent for it. The variables env are added to the
// environment of signalboxd.
func startSlurm(ctx context.Context, t *testing.T, env map[string]string) *slurmKiller {
	t.Helper()
	k := &slurmKiller{T: t, cluster: slurmtest.Start(t, slurmtest.Config{
		Nodes: 2, GPUs: 1, Settings: map[string]string{"MinJobAge": "3600"}, // Slurm knows all jobs until the end of the test
	})}
	k.s = testenv.Single(t, testenv.Options{Env: env})
	k.bin = filepath.Join(k.s.Dir, "gate")
	require.NoError(t, os.MkdirAll(k.bin, 0o755))
	require.NoError(t, os.WriteFile(k.gate("sbatch"), fmt.Appendf(nil, gatedSbatch, k.bin, k.cluster.Bin("sbatch")), 0o755))
	environ := append(k.cluster.Env(), "PATH="+k.bin+string(filepath.ListSeparator)+filepath.Dir(k.cluster.Bin("sbatch"))+
		string(filepath.ListSeparator)+os.Getenv("PATH"))
	k.l = k.s.Loop(ctx)
	k.agent = k.s.Slurm(ctx, k.l.Client, environ, map[string]string{slurmPool: "gpu"})
	return k
}

// gate returns the path of a file in the folder of the agent's sbatch.
func (k *slurmKiller) gate(name string) string { return filepath.Join(k.bin, name) }

// fill lets a job that is not the agent's take all GPUs. Slurm holds jobs with GPUs until the cluster is empty.
func (k *slurmKiller) fill(ctx context.Context) {
	k.Helper()
	k.filler = k.cluster.Output(ctx, "sbatch", "--parsable", "--partition=gpu", "--nodes=2", "--gres=gpu:1", "--time=10", "--output=/dev/null",
		"--chdir="+k.s.Dir, "--wrap=exec sleep 600")
	k.cluster.AwaitState(ctx, k.filler, "RUNNING")
}

func (k *slurmKiller) empty(ctx context.Context) {
	k.Helper()
	k.cluster.Output(ctx, "scancel", k.filler)
	k.filler = ""
}

// submit submits a job for a stage. If the agent is to be killed at sbatch, the job's sbatch stops there.
func (k *slurmKiller) submit(ctx context.Context, stage slurmStage, nodes int) *slurmJob {
	k.Helper()
	name := "job-" + strconv.Itoa(len(k.jobs))
	j := &slurmJob{k: k, stage: stage, nodes: nodes, dir: filepath.Join(k.s.Dir, name)}
	j.l = &e2eflow.Loop{Client: k.l.Client, Clock: k.l.Clock, Timeout: k.l.Timeout, Name: name}
	require.NoError(k, os.Mkdir(j.dir, 0o755))
	k.jobs = append(k.jobs, j)
	spec := testenv.Command(ctx, k.s, j.l, "sh", "-c", slurmCommand, j.dir)
	gpus := 0
	if stage.held {
		gpus = 1
	}
	inner := spec["spec"].(map[string]any)
	inner["resources"] = map[string]any{"pools": []any{map[string]any{"pool": slurmPool, "nodes": nodes, "gpus_per_node": gpus}}}
	inner["limits"] = map[string]any{"running_s": 120, "starting_s": 60}
	inner["checkpoint"] = map[string]any{"grace_s": 10}
	for _, name := range []string{"armed", "job", "taken", "reached"} {
		_ = os.Remove(k.gate(name))
	}
	if stage.sbatch != "" {
		require.NoError(k, os.WriteFile(k.gate("armed"), []byte(stage.sbatch), 0o600))
	}
	require.NoError(k, j.l.Submit(ctx, spec))
	require.NoError(k, os.WriteFile(k.gate("job.new"), []byte(j.l.Job.ID), 0o600))
	require.NoError(k, os.Rename(k.gate("job.new"), k.gate("job")))
	return j
}

// jobNow is what the API shows of a job.
type jobNow struct {
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
	Queue   *struct {
		Reason string `json:"reason"`
	} `json:"queue"`
}

func (j *slurmJob) get(ctx context.Context) (now jobNow) {
	j.k.Helper()
	require.NoError(j.k, j.l.Client.Get(ctx, "/api/jobs/"+j.l.Job.ID, nil, &now))
	return now
}

// over reports whether the job has ended.
func (j *slurmJob) over(ctx context.Context) bool {
	j.k.Helper()
	return e2eflow.Job{State: j.get(ctx).State}.Terminal()
}

// starts returns the ranks that have started, once for each start.
func (j *slurmJob) starts() []string {
	raw, err := os.ReadFile(filepath.Join(j.dir, "starts"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(j.k, err)
	return strings.Fields(string(raw))
}

// slurmJobs returns the jobs of Slurm for the first attempt of the job.
func (j *slurmJob) slurmJobs(ctx context.Context) (all []slurmtest.Job) {
	j.k.Helper()
	for _, of := range j.k.cluster.Jobs(ctx) {
		if strings.HasPrefix(of.Name, "signalbox-"+j.l.Job.ID+"-") {
			all = append(all, of)
		}
	}
	return all
}

// awaitFolder waits until the agent has launched the attempt, and finds the folder `run` of the work.
func (j *slurmJob) awaitFolder(ctx context.Context) {
	j.k.Helper()
	j.until(ctx, "the attempt is launched", func() bool {
		orders, err := filepath.Glob(filepath.Join(j.k.agent.Folder, "works", "*", "run", "batch.json"))
		require.NoError(j.k, err)
		for _, path := range orders {
			var order struct {
				JobID string `json:"job_id"`
			}
			raw, err := os.ReadFile(path)
			if err == nil && json.Unmarshal(raw, &order) == nil && order.JobID == j.l.Job.ID {
				j.folder = filepath.Dir(path)
			}
		}
		return j.folder != ""
	})
}

// awaitFile waits until a file exists in the folder `run` of the work.
func (j *slurmJob) awaitFile(ctx context.Context, name string) {
	j.k.Helper()
	if j.folder == "" {
		j.awaitFolder(ctx)
	}
	j.until(ctx, name+" exists", func() bool { return exists(filepath.Join(j.folder, name)) })
}

// until polls more often than the method of the installation, because the next stage may follow at once.
func (j *slurmJob) until(ctx context.Context, what string, condition func() bool) {
	j.k.Helper()
	for !condition() {
		select {
		case <-ctx.Done():
			require.FailNow(j.k, "condition not met: "+what, j.k.s.Tail()+j.k.cluster.Logs())
		case <-time.After(time.Millisecond):
		}
	}
}

// left returns the jobs of the agent that Slurm holds or runs.
func (k *slurmKiller) left(ctx context.Context) (left []slurmtest.Job) {
	k.Helper()
	for _, j := range k.cluster.Jobs(ctx) {
		switch j.State {
		case "PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING":
			if strings.HasPrefix(j.Comment, "signalbox:") {
				left = append(left, j)
			}
		}
	}
	return left
}
