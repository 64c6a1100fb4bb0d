package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func TestParseQueue(t *testing.T) {
	t.Parallel()
	jobs := parseQueue("4|RUNNING|None|2026-11-28T11:37:53|n[1-2]|signalbox:a1:wrk_a.1.1\n" +
		"5|PENDING|Resources|2026-11-29T00:00:00|(null)|(null)\n" +
		"6+0|RUNNING|None|2026-11-28T11:37:53|n1|signalbox:a1:wrk_b.1.1\n" +
		"6+1|NODE_FAIL|NodeDown|2026-11-28T11:37:53|n2|signalbox:a1:wrk_b.1.1\n" +
		"7_[1-4]|PENDING|Priority|N/A||an array\n" +
		"slurm_load_jobs: a message\n" +
		"8|NEW_STATE|None|N/A||a|comment|with|bars\n\n")
	require.Equal(t, map[string]Job{
		"4": {ID: "4", State: "RUNNING", Start: "2026-11-28T11:37:53", Nodes: "n[1-2]", Comment: "signalbox:a1:wrk_a.1.1"},
		"5": {ID: "5", State: "PENDING", Reason: "Resources", Start: "2026-11-29T00:00:00", Comment: "(null)"},
		"6": {ID: "6", State: "RUNNING", Start: "2026-11-28T11:37:53", Nodes: "n1,n2", Comment: "signalbox:a1:wrk_b.1.1"},
		"8": {ID: "8", State: "NEW_STATE", Comment: "a|comment|with|bars"},
	}, jobs)
}

func TestJob_states(t *testing.T) {
	t.Parallel()
	const held, running = "held", "running"
	for state, want := range map[string]string{
		"PENDING": held, "REQUEUED": held, "REQUEUE_HOLD": held, "RUNNING": running, "COMPLETING": running, "CONFIGURING": running, "SUSPENDED": running,
		"STAGE_OUT": running, "SIGNALING": running, "A_NEW_STATE": running,
		"COMPLETED": "lost", "FAILED": "lost", "CANCELLED": "lost", "NODE_FAIL": "lost", "BOOT_FAIL": "lost", "PREEMPTED": "lost", "REVOKED": "lost",
		"TIMEOUT": "deadline", "DEADLINE": "deadline", "OUT_OF_MEMORY": "oom_host",
	} {
		j := Job{State: state}
		got := running
		if reason, ended := j.end(); ended {
			got = string(reason)
		} else if j.Held() {
			got = held
		}
		require.Equal(t, want, got, state)
	}
}

func TestParseNodes(t *testing.T) {
	t.Parallel()
	line := func(values ...string) string {
		text := ""
		for i, c := range nodeColumns() {
			text += values[i] + strings.Repeat(" ", c.width-len(values[i]))
		}
		return text + "\n"
	}
	got := parseNodes(line("gpu*", "n1", "up", "mixed", "16", "64000", "2-12:30:00", "gpu:a100:4(S:0-1),shard:8", "gpu:a100:3(IDX:0,2-3),shard:0") +
		line("gpu*", "n2", "up", "down*", "32", "1000", "2-12:30:00", "gpu:2", "gpu:0") +
		line("cpu", "n3", "drain", "idle", "8", "500", "infinite", "(null)", "(null)") + "a message\n")
	require.Equal(t, []executor.Partition{
		{Name: "cpu", State: "drain", Nodes: 1, NodesIdle: 1, CPUsPerNode: 8, MemoryPerNode: 500 << 20},
		{
			Name: "gpu", State: "up", Nodes: 2, NodesDown: 1, GPUsTotal: 6, GPUsUsed: 3, GPUsPerNode: 4, CPUsPerNode: 32, MemoryPerNode: 64000 << 20,
			MaxTime: 60*time.Hour + 30*time.Minute,
		},
	}, got)
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"infinite": 0, "n/a": 0, "": 0, "30": 30 * time.Minute, "10:00": 10 * time.Minute, "1:00:00": time.Hour, "1-00:00:00": 24 * time.Hour,
		"2-12": 60 * time.Hour, "2-12:30": 60*time.Hour + 30*time.Minute, "1:2:3:4": 0,
	} {
		require.Equal(t, want, parseTime(text), text)
	}
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"12\n": "12", "12;cluster\n": "12", "": "", "sbatch: error\n": ""} {
		id, err := parseID(text)
		require.Equal(t, want, id)
		require.Equal(t, want == "", err != nil, text)
	}
}

func TestRefusalOfSbatch(t *testing.T) {
	t.Parallel()
	for text, temporary := range map[string]bool{
		"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)":       true,
		"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation":                    true,
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying":                           true,
		"sbatch: error: QOSMaxSubmitJobPerUserLimit":                                                             true,
		"sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)":       true,
		"sbatch: error: Batch job submission failed: Protocol authentication error":                              true,
		"sbatch: error: Batch job submission failed: System submissions disabled":                                true,
		"sbatch: error: Batch job submission failed: I/O error writing script/environment to file":               true,
		"sbatch: error: invalid partition specified: missing":                                                    false,
		"sbatch: error: Batch job submission failed: Requested node configuration is not available":              false,
		"sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified": false,
	} {
		e := &CommandError{Name: "sbatch", Status: 1, Output: text}
		require.Equal(t, temporary, passing(e), text)
		require.NotContains(t, refusal(e), "sbatch: error")
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	r := New(Config{Agent: "a1", Program: "/shared/it's/agent", Environ: []string{"HTTPS_PROXY=http://proxy:3128", "SECRET=x"}}, Deps{})
	o := order{
		Key: executor.Key{WorkID: "wrk_a", Generation: 1, Fence: 2}, JobID: "job_1", Attempt: 3, Grace: 30 * time.Second,
		Batch: executor.BatchSpec{TimeLimit: 90 * time.Second, Priority: 70, Parts: []executor.BatchPart{
			{Nodes: 2, GPUsPerNode: 4, CPUs: 8, MemoryBytes: 1<<30 + 1, Slurm: executor.SlurmPool{Partition: "gpu", Account: "lab", QOS: "high"}},
			{Nodes: 1, Slurm: executor.SlurmPool{Partition: "cpu"}},
		}},
	}
	common := []string{
		"--job-name=signalbox-job_1-3", "--comment=signalbox:a1:wrk_a.1.2", "--no-requeue", "--export=NONE", "--propagate=NONE", "--chdir=/run", "--input=/dev/null",
		"--output=/run/slurm.log", "--open-mode=append", "--nice=30", "--signal=TERM@30", "--time=2",
	}
	want := append([]string{"--parsable"}, common...)
	want = append(want, "--partition=gpu", "--nodes=2", "--ntasks-per-node=1", "--account=lab", "--qos=high", "--gres=gpu:4",
		"--cpus-per-task=8", "--mem=1025M", ":")
	want = append(append(want, common...), "--partition=cpu", "--nodes=1", "--ntasks-per-node=1", "/run/batch.sh")
	require.Equal(t, want, r.arguments("/run", o))
	script := r.script("/run", o)
	require.Contains(t, script, "export 'HTTPS_PROXY=http://proxy:3128'\n")
	require.NotContains(t, script, "SECRET")
	require.Contains(t, script, `--het-group=1 --nodes=1 --ntasks-per-node=1 '/shared/it'\''s/agent' rank '/run' &`)
	o.Batch.Parts = o.Batch.Parts[1:]
	require.Contains(t, r.script("/run", o), `exec '/shared/it'\''s/agent' rank '/run'`)
	require.Contains(t, r.arguments("/run", o), "--signal=B:TERM@30")
}
