package slurmtest_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// record writes the outputs of this version of Slurm into testdata.
var record = flag.Bool("record", false, "record the outputs of Slurm's commands in testdata")

// fields are the fields of `scontrol show job` whose values are the same in each run. The exit code of a job that Slurm
// ends depends on what its processes do.
var fields = regexp.MustCompile(`\b(JobId|HetJobId|HetJobOffset|JobName|JobState|Reason|Requeue|TimeLimit|Partition|NodeList|BatchHost|NumNodes|TresPerNode)=\S*`)

// formats are the options with which the outputs were recorded.
const (
	queueFormat = "--format=%i|%A|%T|%r|%N|%S|%j|%k"
	nodeFormat  = "--Format=NodeList:|,PartitionName:|,Available:|,StateLong:|,CPUs:|,Memory:|,Gres:|,GresUsed:|,Time:|"
)

// TestOutputs_asRecorded requires that Slurm's commands print what the files of testdata contain, which tests of other
// packages parse. Times, paths and reasons of a moment may differ. With the flag -record, it writes the files.
func TestOutputs_asRecorded(t *testing.T) {
	t.Parallel()
	h := start(t)
	words := strings.Fields(h.Output(h.ctx, "sinfo", "--version"))
	dir := filepath.Join("testdata", words[len(words)-1])
	outputs := h.outputs()
	if *record {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range outputs {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	for name, text := range outputs {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err, "run go test ./test/slurmtest -run Outputs -record")
		require.Equal(t, stable(string(raw)), stable(text), name)
	}
}

// stable returns the parts of an output that are the same in each run.
func stable(text string) string {
	if strings.HasPrefix(text, "JobId=") {
		return strings.Join(fields.FindAllString(text, -1), "\n")
	}
	lines := strings.Split(regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]*|\bN/A\b|\bNONE\b`).ReplaceAllString(text, "TIME"), "\n")
	slices.Sort(lines) // the order of partitions differs
	return strings.Join(lines, "\n")
}

// outputs returns the outputs of Slurm's commands by the names of their files.
func (h *harness) outputs() map[string]string {
	h.t.Helper()
	jobs := h.finished()
	maps.Copy(jobs, h.unfinished())
	out := map[string]string{
		"squeue.txt": h.Output(h.ctx, "squeue", "--noheader", "--states=all", "--sort=i", queueFormat),
		"sinfo.txt":  h.Output(h.ctx, "sinfo", "--noheader", "--Node", nodeFormat),
	}
	for name, id := range jobs {
		out["job-"+name+".txt"] = h.Output(h.ctx, "scontrol", "--oneliner", "show", "job", id)
	}
	for name, option := range map[string]string{
		"partition": "--partition=missing", "gres": "--gres=gpu:9", "gres-name": "--gres=tpu:1", "memory": "--mem=1T",
	} {
		out["sbatch-"+name+".txt"] = h.refused("sbatch", option, "--wrap=true")
	}
	out["squeue-unknown.txt"] = h.refused("squeue", "--noheader", "--jobs=999")
	out["scontrol-unknown.txt"] = h.refused("scontrol", "show", "job", "999")
	session := regexp.MustCompile(`AllocNode:Sid=\S*`)
	for name, text := range out {
		text = strings.NewReplacer(h.folder, "/shared", h.Dir, "/cluster").Replace(text)
		out[name] = session.ReplaceAllString(text, "AllocNode:Sid=login:1") + "\n"
	}
	return out
}

// refused runs a command that fails, and returns what it prints.
func (h *harness) refused(name string, args ...string) string {
	h.t.Helper()
	out, err := h.Command(h.ctx, name, args...).CombinedOutput()
	require.Error(h.t, err, "%s %q", name, args)
	return strings.TrimSpace(string(out))
}

// finished runs jobs that end in various ways, and returns their ids.
func (h *harness) finished() map[string]string {
	h.t.Helper()
	states := map[string]string{
		"completed": "COMPLETED", "failed": "FAILED", "killed": "FAILED", "cancelled": "CANCELLED", "node-fail": "NODE_FAIL",
	}
	ids := map[string]string{}
	for _, job := range [][]string{
		{"completed", "true"}, {"failed", "exit 3"}, {"killed", "kill -9 $$"}, {"cancelled", "echo ready; exec sleep 1000"}, {"node-fail", "sleep 1000", "--nodelist=n2"},
	} {
		id := h.submit(job[1], job[2:]...)
		ids[job[0]] = id
		switch job[0] {
		case "cancelled":
			h.awaitLines(1)
			h.Output(h.ctx, "scancel", id)
		case "node-fail":
			h.AwaitState(h.ctx, id, "RUNNING")
			h.Down(h.ctx, "n2", "broken fan")
		}
		h.AwaitState(h.ctx, id, states[job[0]])
	}
	h.Resume(h.ctx, "n2")
	low := h.submit("sleep 1000", "--nodes=2", "--gres=gpu:4")
	h.AwaitState(h.ctx, low, "RUNNING")
	h.AwaitState(h.ctx, h.submit("true", "--nodes=2", "--gres=gpu:4", "--partition=urgent"), "COMPLETED")
	h.AwaitState(h.ctx, low, "PREEMPTED")
	ids["preempted"] = low
	return ids
}

// unfinished submits jobs that run or wait for various reasons, and returns their ids.
func (h *harness) unfinished() map[string]string {
	h.t.Helper()
	// A heterogeneous job starts only if no other job waits for its resources.
	het := h.submit("sleep 1000", "--nodes=1", "--gres=gpu:1", ":", "--nodes=1", "--gres=gpu:2", "--time=10")
	require.Eventually(h.t, func() bool {
		var states []string
		for _, j := range h.Jobs(h.ctx) {
			if strings.HasPrefix(j.ID, het+"+") {
				states = append(states, j.State)
			}
		}
		return strings.Join(states, " ") == "RUNNING RUNNING"
	}, testTimeout, pollInterval, "the components run")
	running := h.submit("sleep 1000", "--nodes=2", "--gres=gpu:2", "--job-name=signalbox-job-1", "--comment=signalbox:nod_1:job/1 a")
	h.AwaitState(h.ctx, running, "RUNNING")
	ids := map[string]string{"het": het, "running": running}
	for _, job := range [][]string{
		{"Resources", "--nodes=2", "--gres=gpu:3"},
		{"Priority", "--nodes=2", "--gres=gpu:3", "--nice=100"},
		{"JobHeldUser", "--hold"},
		{"PartitionTimeLimit", "--partition=short", "--time=20"},
		{"PartitionNodeLimit", "--nodes=3"},
		{"BeginTime", "--begin=now+1hour"},
	} {
		id := h.submit("true", job[1:]...)
		ids[strings.ToLower(job[0])] = id
		require.Eventually(h.t, func() bool { return h.Job(h.ctx, id).Reason == job[0] }, testTimeout, pollInterval, job[0])
	}
	return ids
}
