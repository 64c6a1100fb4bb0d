package command_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodeWithoutPasta is a node whose agent runs as an ordinary user on a machine without pasta.
const nodeWithoutPasta = `{"id":"nod_01kab3c4d5e6f7g8h9j0kmnpqr","name":"cpu-01","state":"ready","limits":"rlimit","version":"1","boundary":{
	"kind":"user_namespace","network":"open","network_problem":"the program pasta is not in PATH","problem":null,"unlimited":["disk","memory","network"],
	"reasons":{"disk":"the agent does not run as root","memory":"the agent cannot create cgroups","network":"the program pasta is not in PATH"}}}`

func TestGetNode_boundary(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/cluster/nodes":
			_, _ = io.WriteString(w, "["+nodeWithoutPasta+"]")
		case "/api/cluster/nodes/nod_01kab3c4d5e6f7g8h9j0kmnpqr":
			_, _ = io.WriteString(w, nodeWithoutPasta)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	got := h.run("cluster", "node", "cpu-01")
	require.Zero(t, got.code, got.err)
	require.Equal(t, `id                nod_01kab3c4d5e6f7g8h9j0kmnpqr
name              cpu-01
state             ready
isolation         user_namespace
network           open
limits            rlimit
unlimited         disk,memory,network
version           1
network_problem   the program pasta is not in PATH
unlimited_disk    the agent does not run as root
unlimited_memory  the agent cannot create cgroups
`, got.out)
	got = h.run("cluster", "nodes", "--columns", "name,isolation,network,limits,unlimited")
	require.Zero(t, got.code, got.err)
	require.Equal(t, "NAME    ISOLATION       NETWORK  LIMITS  UNLIMITED\ncpu-01  user_namespace  open     rlimit  disk,memory,network\n", got.out)
}
