package slurm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// Two ranks on two nodes know their ranks and agree on the address of the main process. Each has its log, its lease and
// its folders.
func TestRanks_agreeOnMainProcess(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2, GPUs: 4})
	goOn := filepath.Join(t.TempDir(), "go")
	w := b.attempt("wrk_a", `echo rank=$SERVICE_JOB_NODE_RANK of=$SERVICE_JOB_NNODES gpus=$SERVICE_JOB_GPUS_PER_NODE devices=$CUDA_VISIBLE_DEVICES host=$(hostname) `+
		`main=$SERVICE_JOB_MASTER_ADDR:$SERVICE_JOB_MASTER_PORT torch=$MASTER_ADDR:$MASTER_PORT:$PET_MASTER_PORT; `+
		`touch "$SERVICE_JOB_WORKDIR/own"; ls "$SERVICE_JOB_WORKDIR"; while [ ! -e `+goOn+` ]; do sleep 0.05; done`, 2)
	w.Attempt.Batch.Parts[0].GPUsPerNode = 2
	b.apply(w)
	o := b.reach(w.Key, executor.PhaseRunning)
	require.Equal(t, []string{"n1", "n2"}, o.Batch.Nodes)
	require.NotEmpty(t, o.Batch.ID)
	b.until("both ranks renew the lease", func() bool { return b.plane.Renewed(w.Key) >= 2 })
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	require.Equal(t, executor.Exit{}, b.exit(w.Key))
	var mains []string
	for rank := range 2 {
		text, sound := b.plane.RankLogs(w.Key, rank)
		require.True(t, sound)
		f := fields(text)
		require.Equal(t, []string{itoa(rank), "2", "2", "0,1", "n" + itoa(rank+1)}, []string{f["rank"], f["of"], f["gpus"], f["devices"], f["host"]}, text)
		require.True(t, strings.HasSuffix(text, "\nown\n"), text)
		require.Equal(t, f["main"]+":"+f["main"][strings.LastIndex(f["main"], ":")+1:], f["torch"])
		mains = append(mains, f["main"])
	}
	require.Equal(t, mains[0], mains[1])
}

// The parts of a gang are one job; ranks count through all of them.
func TestRanks_ofSeveralPools(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 3, GPUs: 4})
	w := b.attempt("wrk_a", `echo rank=$SERVICE_JOB_NODE_RANK of=$SERVICE_JOB_NNODES role=$SERVICE_JOB_ROLE gpus=$SERVICE_JOB_GPUS_PER_NODE main=$SERVICE_JOB_MASTER_PORT`, 1)
	second := w.Attempt.Batch.Parts[0]
	second.Role, second.Nodes, second.GPUsPerNode, second.Slurm.Partition = "rollout", 2, 1, "short"
	w.Attempt.Batch.Parts = append(w.Attempt.Batch.Parts, second)
	w.Attempt.Batch.TimeLimit = 5 * time.Minute
	b.apply(w)
	require.Equal(t, executor.Exit{}, b.exit(w.Key))
	var roles, mains []string
	for rank := range 3 {
		text, _ := b.plane.RankLogs(w.Key, rank)
		f := fields(text)
		require.Equal(t, []string{itoa(rank), "3"}, []string{f["rank"], f["of"]}, text)
		roles, mains = append(roles, f["role"]+f["gpus"]), append(mains, f["main"])
	}
	require.Equal(t, []string{"trainer0", "rollout1", "rollout1"}, roles)
	require.Len(t, slices.Compact(mains), 1)
	require.Len(t, b.observe(w.Key).Batch.Nodes, 3)
}

// If one rank fails, the others are stopped, and the failure is that of the attempt.
func TestRanks_failureStopsOthers(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2})
	w := b.attempt("wrk_a", `if [ $SERVICE_JOB_NODE_RANK = 1 ]; then sleep 1; exit 7; fi; trap 'echo stopped; exit 3' TERM; while :; do sleep 0.05; done`, 2)
	w.Attempt.Grace, w.Attempt.Batch.TimeLimit = time.Hour, 3*time.Hour // Slurm must not have to end the other rank
	b.apply(w)
	require.Equal(t, executor.Exit{Code: 7}, b.exit(w.Key))
	text, _ := b.plane.RankLogs(w.Key, 0)
	require.Equal(t, 1, strings.Count(text, "stopped\n"), text)
}

// A stop reaches all ranks, which have the whole grace period.
func TestRanks_stop(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2})
	dir := t.TempDir()
	// The shell reports on standard error that a signal has ended a program, if one runs then.
	w := b.attempt("wrk_a", `exec 2>/dev/null; n=0; trap 'n=$((n+1))' TERM; touch `+dir+`/$SERVICE_JOB_NODE_RANK; while [ $n = 0 ]; do sleep 0.05; done; sleep 3; echo saved after $n`, 2)
	w.Attempt.Grace = 20 * time.Second
	b.apply(w)
	b.until("both ranks have started", func() bool { return exists(dir+"/0") && exists(dir+"/1") })
	w.Desired = executor.DesiredStopped
	b.apply(w)
	require.Equal(t, executor.Exit{Reason: executor.ReasonStopped}, b.exit(w.Key))
	for rank := range 2 {
		text, _ := b.plane.RankLogs(w.Key, rank)
		require.Equal(t, "saved after 1\n", text, "each process must receive SIGTERM once")
	}
}

// fields returns the words of the form name=value.
func fields(text string) map[string]string {
	all := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		if name, value, ok := strings.Cut(word, "="); ok {
			all[name] = value
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
