package command_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	slurmFleetID = "flt_01kab3c4d5e6f7g8h9j0kmnpqr"
	gpuSettings  = `{"partition":"gpu","account":"lab","qos":"","user":"","folder":"/shared"}`
	// slurmFleet has a report with one test of each pool but the pool late, which is tested with former settings.
	slurmFleet = `{"id":"` + slurmFleetID + `","name":"hpc","kind":"slurm","state":"active","pools":["bare","bad","good","late","none"],"nodes":1,"gpus_total":16,"gpus_free":10,
		"slurm":{"version":"22.05.8","problem":null,"partitions":[
			{"name":"cpu","state":"up","nodes":4,"nodes_idle":4,"nodes_down":0,"gpus_total":0,"gpus_used":0,"jobs_waiting":0,"max_time_s":0,"memory_bytes_per_node":0},
			{"name":"gpu","state":"up","nodes":3,"nodes_idle":1,"nodes_down":2,"gpus_total":16,"gpus_used":6,"jobs_waiting":7,"max_time_s":86400,"memory_bytes_per_node":1073741824}],
		"pools":[
			{"pool":"bad","slurm":` + gpuSettings + `,"isolation":"","problem":"sbatch: error: Invalid account","tested_at":"2026-01-31T10:00:00Z"},
			{"pool":"bare","slurm":` + gpuSettings + `,"isolation":"none","problem":"no user namespaces","tested_at":"2026-01-31T10:00:00Z"},
			{"pool":"good","slurm":` + gpuSettings + `,"isolation":"own_user","problem":null,"tested_at":"2026-01-31T10:00:00Z"},
			{"pool":"late","slurm":{"partition":"cpu","account":"","qos":"","user":"","folder":"/shared"},"isolation":"own_user","problem":null,"tested_at":"2026-01-31T10:00:00Z"}]}}`
	slurmCluster = `{"pools":[{"pool":"bad","isolation":"required","slurm":` + gpuSettings + `},{"pool":"bare","isolation":"required","slurm":` + gpuSettings + `},
		{"pool":"good","isolation":"required","slurm":` + gpuSettings + `},{"pool":"hosts","isolation":"required","slurm":null},
		{"pool":"late","isolation":"required","slurm":` + gpuSettings + `},{"pool":"none","isolation":"required","slurm":null}]}`
	slurmQueue = `[{"position":0,"job_id":"job_1","name":"big","pools":["good","good"],"gpus":8,"priority":50,"reason":"Resources","reason_detail":"Slurm expects to start it at noon","since":"2026-01-31T10:00:00Z"},
		{"position":0,"job_id":null,"name":null,"pools":["good"],"gpus":1,"priority":50,"reason":"QOSMaxGRESPerUser","reason_detail":null,"since":"2026-01-31T10:00:00Z"},
		{"position":1,"job_id":"job_2","name":"small","pools":["good"],"gpus":1,"priority":50,"reason":"pool_capacity","reason_detail":"no room","since":"2026-01-31T10:00:00Z"}]`
)

// slurmServer serves a Slurm fleet with its pools and the queue. It sends the bodies of changes to patched.
func slurmServer(patched chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/fleets":
			_, _ = io.WriteString(w, "["+slurmFleet+"]")
		case "GET /api/fleets/" + slurmFleetID:
			_, _ = io.WriteString(w, slurmFleet)
		case "GET /api/cluster":
			_, _ = io.WriteString(w, slurmCluster)
		case "GET /api/cluster/queue":
			_, _ = io.WriteString(w, slurmQueue)
		case "PATCH /api/cluster/pools/good", "PATCH /api/cluster/pools/none":
			body, _ := io.ReadAll(r.Body)
			patched <- string(body)
			_, _ = io.WriteString(w, `{"pool":"good","isolation":"required","slurm":`+gpuSettings+`}`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}
}

func TestGetFleet_slurm(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slurmServer(nil))
	got := h.run("fleets", "get", "hpc")
	require.Zero(t, got.code, got.err)
	_, tables, found := strings.Cut(got.out, "\n\n")
	require.True(t, found, got.out)
	require.Contains(t, got.out, "slurm  22.05.8, partitions: 2, waiting: 7\n")
	_, passed, _ := strings.Cut(tables, "own_user")
	age := strings.Fields(passed)[0]
	require.Equal(t, `PARTITION  STATE  NODES  IDLE  DOWN  GPUS  USED  WAITING  MAX TIME
cpu        up         4     4     0     0     0        0      none
gpu        up         3     1     2    16     6        7       24h

POOL  PARTITION  ACCOUNT  QOS  FOLDER   TEST          ISOLATION  TESTED  HELD
bad   gpu        lab           /shared  failed                      AGE     0
bare  gpu        lab           /shared  not isolated  none          AGE     0
good  gpu        lab           /shared  passed        own_user      AGE     2
late  gpu        lab           /shared  not tested                          0
none                                    no settings                         0
`, strings.ReplaceAll(tables, fmt.Sprintf("%6s", age), "   AGE"))
	require.Equal(t, "pool bad: sbatch: error: Invalid account; correct the settings with signalbox cluster pool bad, or repair the cluster: the agent repeats the test\n"+
		"pool bare: no user namespaces; repair that, or permit work without isolation: signalbox cluster pool bare --isolation none\n"+
		"pool none: an admin sets how its jobs run: signalbox cluster pool none --partition NAME --folder FOLDER\n", got.err)

	for _, args := range [][]string{{"-o", "json"}, {"--jq", ".slurm.version"}, {"--columns", "name"}} {
		plain := h.run(append([]string{"fleets", "get", "hpc"}, args...)...)
		require.Zero(t, plain.code, plain.err)
		require.NotContains(t, plain.out, "PARTITION")
	}
	list := h.run("fleets", "ls", "-o", "wide")
	require.Contains(t, list.out, "22.05.8, partitions: 2, waiting: 7")
	require.Equal(t, "Slurm has problems in hpc; signalbox fleets get hpc shows them\n", list.err)
}

func TestQueue_heldBySlurm(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slurmServer(nil))
	got := h.run("cluster", "queue", "--columns", "position,name,reason,detail")
	require.Equal(t, `POSITION  NAME   REASON                    DETAIL
       -  big    Slurm: Resources          Slurm expects to start it at noon
       -         Slurm: QOSMaxGRESPerUser
       1  small  pool_capacity             no room
`, got.out)
}

// The server replaces the Slurm settings of a pool as a whole, so a change of one of them keeps the others.
func TestPool_slurm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    string // the body that is sent
		refused string
	}{
		"one":        {args: []string{"good", "--qos", "long"}, want: `{"slurm":{"partition":"gpu","account":"lab","qos":"long","user":"","folder":"/shared"}}`},
		"clear":      {args: []string{"good", "--clear", "account,qos"}, want: `{"slurm":{"partition":"gpu","account":"","qos":"","user":"","folder":"/shared"}}`},
		"with other": {args: []string{"good", "--isolation", "none", "--user", "train"}, want: `{"isolation":"none","slurm":{"partition":"gpu","account":"lab","qos":"","user":"train","folder":"/shared"}}`},
		"new":        {args: []string{"none", "--partition", "cpu", "--folder", "/s"}, want: `{"slurm":{"partition":"cpu","folder":"/s"}}`},
		"only other": {args: []string{"good", "--isolation", "none"}, want: `{"isolation":"none"}`},
		"incomplete": {args: []string{"none", "--partition", "cpu"}, refused: "pool none has no Slurm settings yet; give both --partition and --folder"},
		"empty":      {args: []string{"good", "--account", ""}, refused: "--account must not be empty; an unset variable?"},
		"both":       {args: []string{"good", "--account", "x", "--clear", "account"}, refused: "--account and --clear account contradict each other; give one of them"},
		"no clear":   {args: []string{"good", "--clear", "partition"}, refused: `--clear "partition" does not exist; use one of account, qos, user`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patched := make(chan string, 1)
			got := newHarness(t, slurmServer(patched)).run(append([]string{"cluster", "pool"}, tc.args...)...)
			if tc.refused != "" {
				require.Equal(t, 2, got.code, got.err)
				require.Contains(t, got.err, tc.refused)
				return
			}
			require.Zero(t, got.code, got.err)
			require.JSONEq(t, tc.want, <-patched)
			require.Contains(t, got.out, "partition  gpu\n")
		})
	}
}

func TestGetJob_slurm(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[string]string{
		`[{"number":1,"batch_id":"16","batch_nodes":["n0"]},{"number":2,"batch_id":"17","batch_nodes":[]}]`: "slurm    job 17\n",
		`[{"number":2,"batch_id":"17","batch_nodes":["n1","n2"]}]`:                                          "slurm    job 17 on n1, n2\n",
		`[{"number":2,"batch_id":null,"batch_nodes":[]}]`:                                                   "",
	} {
		h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/attempts") {
				_, _ = io.WriteString(w, attempts)
				return
			}
			_, _ = io.WriteString(w, `{"id":"`+ownID+`","attempt":2,"state":"scheduled","queue":{"reason":"Priority","reason_detail":""}}`)
		})
		got := h.run("jobs", "get", ownID)
		require.Contains(t, got.out, "queue    Slurm: Priority\n")
		require.Contains(t, got.out, want)
		require.Equal(t, want != "", strings.Contains(got.out, "slurm  "), got.out)
		require.NotContains(t, h.run("jobs", "get", ownID, "-o", "json").out, "slurm")
	}
}
