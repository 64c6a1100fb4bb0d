package agent_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// join runs `signalbox-agent join` and returns its output on stdout and stderr and its exit error.
func join(t *testing.T, data, token string, flags ...string) (out, words string, err error) {
	t.Helper()
	return joinWith(t, "", data, token, flags...)
}

// joinWith is like join, but the process reads the given input from stdin.
func joinWith(t *testing.T, input, data, token string, flags ...string) (out, words string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"join", "--data", data}, flags...)...)
	cmd.Env = os.Environ()
	if token != "" {
		cmd.Env = append(cmd.Env, "SERVICE_AGENT_JOIN_TOKEN="+token)
	}
	var o, e bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &o, &e
	err = cmd.Run()
	require.NoError(t, ctx.Err(), "the command must end")
	return o.String(), e.String(), err
}

func (c *fakeControlPlane) joined() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joins
}

func TestJoinThenRunUsesSameNode(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data := filepath.Join(t.TempDir(), "not", "made", "yet")
	out, _, err := join(t, data, joinToken, "--server", c.http.URL)
	require.NoError(t, err)
	require.Contains(t, out, "joined the fleet as node nod_1")
	require.Contains(t, out, "signalbox-agent run --data "+data)
	require.NotContains(t, out, joinToken)
	require.Empty(t, c.greetings(), "join must not connect")

	p := startAgent(t, c, data, "")
	c.setDesired(c.script("exit 3"))
	require.Equal(t, int32(3), c.phase(jobsv1.Phase_PHASE_EXITED).GetExit().GetCode())
	require.Equal(t, "nod_1", c.greetings()[0].GetNodeId())
	require.Equal(t, 1, c.joined())
	c.setDesired()
	c.awaitNoWorks()
	p.terminate()
}

func TestSecondJoinFailsAndKeepsNode(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data := t.TempDir()
	_, _, err := join(t, data, joinToken, "--server", c.http.URL)
	require.NoError(t, err)
	identity := read(t, filepath.Join(data, "node", "node.pem"))
	_, words, err := join(t, data, joinToken, "--server", c.http.URL)
	require.Error(t, err)
	require.Contains(t, words, "joined a fleet already: it is node nod_1")
	require.Contains(t, words, "remove "+filepath.Join(data, "node"))
	require.Equal(t, identity, read(t, filepath.Join(data, "node", "node.pem")))
	require.Equal(t, 1, c.joined())

	// While an agent is running, join fails earlier because the folder is locked.
	p := startAgentAndAwait(t, c, data, "", 1)
	_, words, err = join(t, data, joinToken, "--server", c.http.URL)
	require.Error(t, err)
	require.Contains(t, words, "in use")
	p.terminate()
}

func TestJoinFailureLeavesNoNode(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	closed := newFakeControlPlane(t)
	require.Empty(t, closed.address, "the control plane must have no agent listener")
	away := newFakeControlPlane(t)
	away.http.Close()
	for name, row := range map[string]struct {
		token, want string
		flags       []string
	}{
		"wrong token":        {"another", "the join token is unknown or used", []string{"--server", c.http.URL}},
		"missing token":      {"", "SERVICE_AGENT_JOIN_TOKEN", []string{"--server", c.http.URL}},
		"missing server":     {joinToken, "--server", nil},
		"server unreachable": {joinToken, "connection refused", []string{"--server", away.http.URL}},
		"no agent listener":  {joinToken, "SERVICE_JOBS_AGENT_LISTEN", []string{"--server", closed.http.URL}},
		"empty input":        {"", "standard input is empty", []string{"--server", c.http.URL, "--join-token-file", "-"}},
		"flag of run":        {joinToken, "stop-works", []string{"--server", c.http.URL, "--stop-works"}},
		"token as argument":  {"", "unexpected argument", []string{"--server", c.http.URL, joinToken}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			out, words, err := join(t, data, row.token, row.flags...)
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, words, row.want)
			require.Empty(t, out)
			require.NoDirExists(t, filepath.Join(data, "node"))
		})
	}
}

func TestJoinTokenFromFile(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	out, _, err := join(t, t.TempDir(), "", "--server", c.http.URL+"/", "--join-token-file", tokenFile(t, joinToken))
	require.NoError(t, err)
	require.Contains(t, out, "joined the fleet as node nod_1")
}

// The command that the API returns with a join token reads the token from standard input.
func TestJoinTokenFromStandardInput(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	out, _, err := joinWith(t, joinToken+"\nmore\n", t.TempDir(), "", "--server", c.http.URL, "--join-token-file", "-")
	require.NoError(t, err)
	require.Contains(t, out, "joined the fleet as node nod_1")
}
