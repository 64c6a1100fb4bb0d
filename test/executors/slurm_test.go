package executors

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/slurmtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// slurmCluster is a real Slurm cluster with two nodes and one agent.
type slurmCluster struct {
	cluster *slurmtest.Cluster
	agent   *testenv.Process
	fleet   string
}

func openSlurm(h *harness) executor {
	h.Helper()
	e := &slurmCluster{cluster: slurmtest.Start(h.T, slurmtest.Config{Nodes: 2})}
	fleet, joinToken := h.createFleet("slurm")
	folder := filepath.Join(h.s.Dir, "shared")
	require.NoError(h, os.Mkdir(folder, 0o755))
	settings := map[string]any{"slurm": map[string]string{"partition": "gpu", "folder": folder}}
	require.NoError(h, h.admin.Do(h.Context(), http.MethodPatch, "/api/cluster/pools/"+pool, settings, nil))
	env := append(h.agentSettings(), e.cluster.Env()...)
	env = append(env, "PATH="+filepath.Dir(e.cluster.Bin("sbatch"))+string(filepath.ListSeparator)+testenv.PathWithUV(h.T),
		"SERVICE_AGENT_RUNS_ON=slurm", "SERVICE_AGENT_SLURM_FOLDER="+folder)
	e.agent, e.fleet = h.s.StartAgent("login", joinToken(), env...), fleet
	return e
}

func (e *slurmCluster) agents() []*testenv.Process { return []*testenv.Process{e.agent} }

func (e *slurmCluster) awaitReady(h *harness) {
	h.Helper()
	var fleet struct {
		Slurm *struct {
			Pools []struct {
				Isolation string
				Problem   *string
				TestedAt  *time.Time `json:"tested_at"`
			}
		}
	}
	h.until("the pool is tested", func() bool {
		err := h.admin.Get(h.Context(), "/api/fleets/"+e.fleet, nil, &fleet)
		return err == nil && fleet.Slurm != nil && len(fleet.Slurm.Pools) == 1 && fleet.Slurm.Pools[0].TestedAt != nil
	})
	require.Nil(h, fleet.Slurm.Pools[0].Problem, h.tail())
	e.cluster.AwaitIdle(h.Context())
}

func (e *slurmCluster) awaitIdle(h *harness) {
	h.Helper()
	h.until("Slurm has no job", func() bool { return e.cluster.Output(h.Context(), "squeue", "--noheader") == "" })
}

func (e *slurmCluster) node(_ *harness, a attempt) string {
	return strings.Join(a.BatchNodes, ",")
}

// fail sets a node down, as an admin of the cluster would. Slurm ends the jobs of the node.
func (e *slurmCluster) fail(j *job, node string) (message string) {
	j.Helper()
	e.cluster.Down(j.Context(), node, "no power")
	j.awaitTermination()
	return "state NODE_FAIL, reason NodeDown; down: " + node + " (no power)"
}

func (e *slurmCluster) repair(h *harness, node string) {
	e.cluster.Resume(h.Context(), node)
	e.awaitReady(h)
}

func (e *slurmCluster) servers(h *harness) map[string]func() {
	return map[string]func(){
		"control plane": h.restartControlPlane,
		"slurmctld":     func() { e.cluster.RestartController(h.Context()) },
	}
}

func (e *slurmCluster) logs() string { return e.cluster.Logs() }
