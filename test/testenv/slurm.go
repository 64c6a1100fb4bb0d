package testenv

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// slurmAgent is the name of the process of a SlurmAgent.
const slurmAgent = "slurm-agent"

// SlurmAgent is an agent that runs attempts on a Slurm cluster.
type SlurmAgent struct {
	*Process

	// Fleet is the id of its fleet, and Folder its own folder on the shared file system.
	Fleet, Folder string
}

// Slurm joins an agent that runs attempts on a Slurm cluster, and waits until it has tested its pools. The argument
// environ has the variables with which Slurm's commands find the cluster. The argument pools has the partition of each
// pool; their jobs are not isolated.
func (s *Installation) Slurm(ctx context.Context, admin *client.Client, environ []string, pools map[string]string) *SlurmAgent {
	s.T.Helper()
	var names []string
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	var fleet struct {
		ID string `json:"id"`
	}
	require.NoError(s.T, admin.Post(ctx, "/api/fleets", map[string]any{"name": "slurm", "kind": "slurm", "pools": names}, &fleet))
	var join struct {
		Token string `json:"token"`
	}
	require.NoError(s.T, admin.Post(ctx, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join))
	shared := filepath.Join(s.Dir, "shared")
	require.NoError(s.T, os.MkdirAll(shared, 0o755))
	for _, name := range names {
		set := map[string]any{"isolation": "none", "slurm": map[string]string{"partition": pools[name], "folder": shared}}
		require.NoError(s.T, admin.Do(ctx, http.MethodPatch, "/api/cluster/pools/"+name, set, nil))
	}
	token := filepath.Join(s.Dir, "join-token")
	require.NoError(s.T, os.WriteFile(token, []byte(join.Token), 0o600))
	env := append(append(os.Environ(), environ...), "SERVICE_AGENT_SERVER="+s.URL, "SERVICE_AGENT_DATA="+filepath.Join(s.Dir, slurmAgent),
		"SERVICE_AGENT_RUNS_ON=slurm", "SERVICE_AGENT_SLURM_FOLDER="+shared, "SERVICE_AGENT_ISOLATION=none", smallReserve)
	agent := newProcess(s.T, s.Dir, slurmAgent, env, Bin(s.T, "signalbox-agent"), "run")
	agent.once(agent.argv[0], "join", "--server", s.URL, "--join-token-file", token)
	s.Processes[slurmAgent], s.Order = agent, append(s.Order, slurmAgent)
	agent.Start()
	s.Until(ctx, "the agent has tested its pools", func() bool {
		var now struct {
			Slurm *struct {
				Pools []struct{ Problem *string }
			}
		}
		require.NoError(s.T, admin.Get(ctx, "/api/fleets/"+fleet.ID, nil, &now))
		if now.Slurm == nil || len(now.Slurm.Pools) < len(names) {
			return false
		}
		for _, p := range now.Slurm.Pools {
			require.True(s.T, p.Problem == nil || strings.Contains(*p.Problem, "isolat"), "%v%s", p.Problem, s.Tail())
		}
		return true
	})
	folders, err := filepath.Glob(filepath.Join(shared, "signalbox-*"))
	require.NoError(s.T, err)
	require.Len(s.T, folders, 1)
	return &SlurmAgent{Process: agent, Fleet: fleet.ID, Folder: folders[0]}
}
