package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// joinToken is the response to the creation of a join token.
type joinToken struct {
	Token   string `json:"token"`
	Command string `json:"command"`
}

// mintToken creates a fleet and a pool, both with the given name, and a join token for the fleet.
func mintToken(ctx context.Context, c *client.Client, name string) (fleet string, token joinToken, err error) {
	var made struct {
		ID string `json:"id"`
	}
	if err = c.Post(ctx, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &made); err != nil {
		return "", token, err
	}
	return made.ID, token, c.Post(ctx, "/api/fleets/"+made.ID+"/join-tokens", map[string]any{}, &token)
}

// nodesOf returns the states of a fleet's nodes by id.
func nodesOf(ctx context.Context, c *client.Client, fleet string) map[string]string {
	var nodes []struct {
		ID, State string
		Fleet     string `json:"fleet_id"`
	}
	states := map[string]string{}
	if c.Get(ctx, "/api/cluster/nodes", nil, &nodes) == nil {
		for _, n := range nodes {
			if n.Fleet == fleet {
				states[n.ID] = n.State
			}
		}
	}
	return states
}

// TestSingleProcess_secondHostJoins joins a second host to signalboxd as an operator would. It runs the
// command shown with the join token, and then runs the agent as a separate process that connects over
// mutual TLS.
func TestSingleProcess_secondHostJoins(t *testing.T) {
	ctx := t.Context()
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	fleet, token, err := mintToken(ctx, l.Client, "far")
	require.NoError(t, err)
	require.Contains(t, token.Command, " --server "+s.URL)

	host := testenv.Folder(t)
	env := []string{
		"SERVICE_AGENT_DATA=" + filepath.Join(host, "agent"), "SERVICE_AGENT_ENVIRONMENTS=" + s.Environments, "SERVICE_AGENT_HOSTNAME=far",
		"PATH=" + filepath.Dir(testenv.Bin(t, "signalbox-agent")) + string(filepath.ListSeparator) + os.Getenv("PATH"),
	}
	join := exec.CommandContext(ctx, "sh", "-c", token.Command)
	join.Env, join.Dir, join.Stdin = append(os.Environ(), env...), host, strings.NewReader(token.Token)
	printed, err := join.CombinedOutput()
	require.NoError(t, err, "%s%s", printed, s.Tail())
	require.Contains(t, string(printed), "joined the fleet as node nod_")
	a := start(t, host, env, testenv.Bin(t, "signalbox-agent"), "run")
	node := awaitNode(t, l.Client, fleet, a)

	runOnJoinedHost(ctx, t, s, node)
	t.Run("stays joined when signalboxd restarts", func(t *testing.T) {
		interrupt(t, s)
		s.StartSingle()
		require.Equal(t, node, awaitNode(t, s.Loop(ctx).Client, fleet, a), "the node must keep its id")
		runOnJoinedHost(ctx, t, s, node)
	})
	a.interrupt(t)
	a.ends(t, 30*time.Second)
	require.NoError(t, a.err, a.log.String())
}

// awaitNode waits until the only node of the fleet is ready.
func awaitNode(t *testing.T, c *client.Client, fleet string, a *signalboxd) (id string) {
	t.Helper()
	require.True(t, eventually(t.Context(), testenv.StageTimeout, func() bool {
		select {
		case <-a.done:
			require.FailNow(t, "the agent exited", a.log.String())
		default:
		}
		for node, state := range nodesOf(t.Context(), c, fleet) {
			if state == "ready" {
				id = node
			}
		}
		return id != ""
	}), "the node is not ready: %v\n%s", nodesOf(t.Context(), c, fleet), a.log)
	return id
}

// runOnJoinedHost submits a job to the pool of the joined host. The command of the job sends reports.
func runOnJoinedHost(ctx context.Context, t *testing.T, s *testenv.Installation, node string) {
	t.Helper()
	l := s.Loop(ctx)
	spec := commandSpec(ctx, t, l, "python", "-c", `
import signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    print("from far away")
`)
	spec["spec"].(map[string]any)["resources"] = map[string]any{"pools": []any{map[string]any{"pool": "far"}}}
	require.NoError(t, l.Submit(ctx, spec))
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "succeeded", e.State, "%s\n%s%s", e.Message, e.log, s.Tail())
	require.Empty(t, e.Warnings, "the reports must have arrived")
	require.NotNil(t, e.RunningAt)
	require.Contains(t, e.log, "from far away")
	var attempts []struct {
		Node string `json:"node_id"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/attempts", nil, &attempts))
	require.Len(t, attempts, 1)
	require.Equal(t, node, attempts[0].Node)
}

// TestSingleProcess_noJoinTokenWithoutListener starts signalboxd with default settings. With these settings,
// signalboxd does not listen for agents, so it must not issue a join token.
func TestSingleProcess_noJoinTokenWithoutListener(t *testing.T) {
	dir := testenv.Folder(t)
	const password = "given to the test"
	d := start(t, dir, []string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD=" + password})
	d.awaitReady(t, dir)
	l := &e2eflow.Loop{Client: client.New(d.ready.Address, nil), Clock: clock.Real(), Timeout: testenv.StageTimeout}
	require.NoError(t, l.Login(t.Context(), "admin", secret.New(password)))
	_, token, err := mintToken(t.Context(), l.Client, "far")
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusNotImplemented, refused.Status)
	require.Contains(t, refused.Detail, "SERVICE_JOBS_AGENT_LISTEN")
	require.Empty(t, strings.TrimSpace(token.Token+token.Command))
}
