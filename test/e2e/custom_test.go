package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const custom = "custom/custom"

// submitCommand submits a job that runs the given command.
func submitCommand(ctx context.Context, t *testing.T, l *e2eflow.Loop, command ...string) {
	t.Helper()
	require.NoError(t, l.Submit(ctx, commandSpec(ctx, t, l, command...)))
}

func commandSpec(ctx context.Context, t *testing.T, l *e2eflow.Loop, command ...string) map[string]any {
	t.Helper()
	lock, version, err := l.Lock(ctx, custom)
	require.NoError(t, err)
	return map[string]any{"api": "service/v1", "spec": map[string]any{
		"name":      l.Name,
		"source":    map[string]any{"command": append([]string{}, command...)},
		"recipe":    map[string]any{"name": custom, "version": version, "lock": lock},
		"hparams":   map[string]any{"greeting": "hello"},
		"env":       map[string]string{"MY_WORD": "of mine", "MY_KEY": "first line\nsecond line\n"},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}}
}

// finalState is the final state of a job and of its attempts.
type finalState struct {
	State     string   `json:"state"`
	EndReason string   `json:"end_reason"`
	Message   string   `json:"message"`
	Warnings  []string `json:"warnings"`
	RunningAt *string  `json:"running_at"`
	Collected *bool    `json:"collected"`
	attempts  []attempt
	log       string
}

type attempt struct {
	Number    int    `json:"number"`
	State     string `json:"state"`
	EndReason string `json:"end_reason"`
	Message   string `json:"message"`
	ExitCode  *int   `json:"exit_code"`
}

// awaitEnd waits until the job has ended and reads its complete log.
func awaitEnd(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) finalState {
	t.Helper()
	var e finalState
	require.NoError(t, l.AwaitState(ctx, "succeeded", "failed", "stopped"), s.Tail())
	require.NoError(t, l.FollowLogs(ctx, func(line e2eflow.LogLine) { e.log += line.Text + "\n" }))
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID, nil, &e))
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/attempts", nil, &e.attempts))
	return e
}

func TestCustomCommands(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) { customCommands(t, start(t, testenv.Options{})) })
	}
}

func customCommands(t *testing.T, s *testenv.Installation) {
	t.Helper()
	ctx := t.Context()
	t.Run("succeeds", func(t *testing.T) {
		l := s.Loop(ctx)
		submitCommand(ctx, t, l, "sh", "-c", `cat "$SERVICE_JOB_HPARAMS_FILE"; echo; echo "word $MY_WORD"; printf %s "$MY_KEY"; echo "a secret: ${HOME_OF_THE_TEST:-none}" >&2`)
		e := awaitEnd(ctx, t, s, l)
		require.Equal(t, "succeeded", e.State, e.Message)
		require.Equal(t, "completed", e.EndReason)
		require.Equal(t, []string{"no_terminal_report"}, e.Warnings)
		require.Nil(t, e.RunningAt, "the command sent no report, so no time is billed")
		require.Contains(t, e.log, `"greeting"`)
		require.Contains(t, e.log, "word of mine\nfirst line\nsecond line\n")
		require.Contains(t, e.log, "a secret: none")
		require.Len(t, e.attempts, 1)
		require.Equal(t, 0, *e.attempts[0].ExitCode)
	})
	t.Run("fails", func(t *testing.T) {
		l := s.Loop(ctx)
		submitCommand(ctx, t, l, "sh", "-c", "echo no luck; exit 3")
		e := awaitEnd(ctx, t, s, l)
		require.Equal(t, "failed", e.State)
		require.Equal(t, "user_error", e.EndReason)
		require.Equal(t, "the command ended with exit code 3", e.Message)
		require.Contains(t, e.log, "no luck")
		require.Len(t, e.attempts, 1, "a user error must not be retried")
		require.Equal(t, 3, *e.attempts[0].ExitCode)
	})
	t.Run("missing program", func(t *testing.T) {
		l := s.Loop(ctx)
		submitCommand(ctx, t, l, "no-such-program")
		e := awaitEnd(ctx, t, s, l)
		require.Equal(t, "failed", e.State)
		require.Equal(t, "user_error", e.EndReason)
		require.Contains(t, e.Message, "no-such-program")
	})
	t.Run("uses the Python reporter", func(t *testing.T) { reportingCommand(ctx, t, s) })
	t.Run("prints many lines", func(t *testing.T) { requirePrintedLines(ctx, t, s) })
	t.Run("last lines", func(t *testing.T) { lastLines(ctx, t, s) })
	t.Run("progress bar", func(t *testing.T) { progressBar(ctx, t, s) })
	t.Run("process group killed", func(t *testing.T) { killProcessGroup(ctx, t, s) })
	t.Run("stopped", func(t *testing.T) { stoppedCommand(ctx, t, s) })
	t.Run("no command", func(t *testing.T) {
		l := s.Loop(ctx)
		e := submitRefused(ctx, t, l.Client, commandSpec(ctx, t, l))
		require.Equal(t, http.StatusBadRequest, e.Status)
		require.Equal(t, "entrypoint_override: the recipe custom/custom needs spec.source.command", e.Detail)
	})
}

// reportingCommand runs a command that uses the Python reporter, which every attempt can import.
func reportingCommand(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "python", "-c", `
import signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    run.log({"mine/value": 2.5}, step=1)
`)
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "succeeded", e.State, e.Message+e.log)
	require.Empty(t, e.Warnings)
	require.NotNil(t, e.RunningAt)
	var series []struct {
		Key    string
		Points []struct{ Value float64 }
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/metrics", nil, &series))
	raw, err := json.Marshal(series)
	require.NoError(t, err)
	require.Contains(t, string(raw), `{"Key":"mine/value","Points":[{"Value":2.5}]}`)
}

// stoppedCommand stops a command that has a child process. It requires that the child has also ended.
func stoppedCommand(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", "sleep 611 & echo started; wait")
	found := make(chan struct{}, 1)
	go func() {
		_ = l.FollowLogs(ctx, func(line e2eflow.LogLine) {
			if line.Text == "started" {
				found <- struct{}{}
			}
		})
	}()
	select {
	case <-found:
	case <-ctx.Done():
		require.FailNow(t, "the command did not start", s.Tail())
	}
	path := "/api/jobs/" + l.Job.ID + "/stop"
	require.NoError(t, l.Client.Post(ctx, path, nil, nil))
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "stopped", e.State, e.Message)
	require.Len(t, e.attempts, 1)
	err := l.Client.Post(ctx, path, nil, nil)
	var again *client.Error
	require.ErrorAs(t, err, &again)
	require.Equal(t, http.StatusConflict, again.Status, "%s", again.Body)
	for _, pid := range testenv.LeftProcesses(s.Dir) {
		require.NotContains(t, commandLine(pid), "sleep 611", "the child must have ended")
	}
}

// TestEnvironmentBuildFailure makes the installer use a package index that does not respond.
func TestEnvironmentBuildFailure(t *testing.T) {
	ctx := t.Context()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	index := "http://" + dead.Addr().String() + "/simple"
	require.NoError(t, dead.Close())
	s := testenv.Single(t, testenv.Options{OwnEnvironments: true, Env: map[string]string{
		"PIP_INDEX_URL": index, "UV_INDEX_URL": index, "UV_DEFAULT_INDEX": index, "PIP_FIND_LINKS": "", "UV_FIND_LINKS": "",
		"PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": "/dev/null", "UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1",
		"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0",
	}})
	l := s.Loop(ctx)
	dataset, err := l.PushDataset(ctx, "v1", "rows.jsonl", []byte("{}\n"))
	require.NoError(t, err)
	spec, err := l.Spec(ctx, dataset, map[string]any{}, 1)
	require.NoError(t, err)
	require.NoError(t, l.Submit(ctx, spec))
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "failed", e.State)
	require.Equal(t, "env_build", e.EndReason)
	require.Len(t, e.attempts, 1, "the job must not be retried: the same lock would fail again")
	require.Equal(t, "env_build", e.attempts[0].EndReason)
	require.Contains(t, e.Message, dead.Addr().String(), "the message must contain the installer's output")
	require.Equal(t, e.Message, e.attempts[0].Message)
}
