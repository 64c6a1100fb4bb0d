// Package clients calls an engine with the official clients of the OpenAI API, as their users do: directly, and through a
// deployment. What a client returns or raises must be the same.
package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// directKey is the API key of the engine that is called directly.
const directKey = "direct"

// task is the input of a client.
type task struct {
	URL string `json:"url"`
	Key string `json:"key"`
	// SlowURL and SlowKey are for the scenarios late and pause.
	SlowURL string   `json:"slow_url"`
	SlowKey string   `json:"slow_key"`
	Headers []string `json:"headers"`
	// Scenarios are the names of those to call.
	Scenarios []string `json:"scenarios"`
}

// outcome is what the user of a client sees of one scenario: the kind is `result` or the class of the exception.
type outcome struct {
	Kind    string    `json:"kind"`
	Status  int       `json:"status"`
	Code    *string   `json:"code"`
	Text    string    `json:"text"`
	Tokens  int       `json:"tokens"`
	Headers []*string `json:"headers"`
}

func (o outcome) String() string {
	code, headers := "", []string{}
	if o.Code != nil {
		code = *o.Code
	}
	for _, value := range o.Headers {
		headers = append(headers, "none")
		if value != nil {
			headers[len(headers)-1] = *value
		}
	}
	return fmt.Sprintf("%s %d %s %q %d tokens %v", o.Kind, o.Status, code, o.Text, o.Tokens, headers)
}

// TestClients calls each scenario of testdata/engine.py with each client.
func TestClients(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.StageTimeout)
	defer cancel()
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	version, err := l.Register(ctx, testenv.ExportModel(ctx, s, l))
	require.NoError(t, err)
	deployed := deploy(ctx, t, s, l, version, nil)
	impatient := deploy(ctx, t, s, l, version, map[string]int{"first_byte_s": 3, "idle_s": 3})
	headers := []string{"x-ratelimit-remaining-requests", "openai-processing-ms", "x-engine"}
	proxied := task{
		URL: baseURL(s, deployed), Key: deployed.Token.Reveal(), SlowURL: baseURL(s, impatient), SlowKey: impatient.Token.Reveal(), Headers: headers,
	}
	engine := startEngine(ctx, t, s)
	direct := task{URL: engine, Key: directKey, SlowURL: engine, SlowKey: directKey, Headers: headers}
	clients := officialClients(ctx, t)
	t.Run("clients", func(t *testing.T) {
		for name, client := range clients {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				without := call(ctx, t, client, direct, scenarios()...)
				// The engine leaves the connection of this scenario open, and does not read what follows on it.
				maps.Copy(without, call(ctx, t, client, direct, "early"))
				through := call(ctx, t, client, proxied, append(scenarios(), "early", "late", "pause")...)
				requireSame(t, name, without, through)
			})
		}
	})
	if !t.Failed() {
		slow := executions(ctx, t, task{URL: proxied.SlowURL, Key: proxied.SlowKey})
		through := executions(ctx, t, proxied)
		// Each deployment has recorded the call that read its executions, which has no model. The scenarios early and
		// model have none either.
		requireRecords(ctx, t, s, impatient, 1, slow)
		requireRecords(ctx, t, s, deployed, 1+2*len(clients), through)
		maps.Copy(through, slow)
		requireExecutions(t, executions(ctx, t, direct), through)
	}
}

// engineCommand returns the command of the engine. An argument of a command has at most 4096 bytes, so the program is
// passed in parts.
func engineCommand(t *testing.T, address ...string) []string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join("testdata", "engine.py"))
	require.NoError(t, err)
	command := append([]string{"python", "-c", "import sys; exec(''.join(sys.argv[4:]))"}, address...)
	for part := range slices.Chunk(program, 3500) {
		command = append(command, string(part))
	}
	return command
}

// deploy serves the engine with the given limits for the waits of calls.
func deploy(
	ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, version e2eflow.ModelVersion, timeouts map[string]int,
) *e2eflow.Loop {
	t.Helper()
	deployed := *l
	serving := map[string]any{"engine": "command", "command": engineCommand(t, "{host}", "{port}", "{api_key_file}")}
	name := l.Name
	if timeouts != nil {
		serving["timeouts"] = timeouts
		name += "-impatient"
	}
	require.NoError(t, deployed.Deploy(ctx, name, version, serving))
	require.NoError(t, deployed.AwaitReady(ctx), s.Tail())
	require.NoError(t, deployed.Promote(ctx))
	require.NoError(t, deployed.MakeToken(ctx, "clients"))
	return &deployed
}

func baseURL(s *testenv.Installation, l *e2eflow.Loop) string {
	return s.URL + "/inference/" + l.Deployment.ID + "/v1"
}

// startEngine starts the engine beside the installation, and returns its base URL.
func startEngine(ctx context.Context, t *testing.T, s *testenv.Installation) string {
	t.Helper()
	address := s.FreeAddress()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	argv := engineCommand(t, host, port, directKey)
	cmd := exec.CommandContext(ctx, "python3", argv[1:]...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	s.Until(ctx, "the engine listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + address + "/v1"
}

// program is how a client is run.
type program struct{ argv, env []string }

// officialClients returns the programs of the clients. The client for Go is included only in long tests.
func officialClients(ctx context.Context, t *testing.T) map[string]program {
	t.Helper()
	folder, err := filepath.Abs("testdata")
	require.NoError(t, err)
	clients := map[string]program{
		"python": {argv: []string{testenv.Tool(ctx, t, "venv.sh", "clients", filepath.Join(folder, "requirements.lock")), "client.py"}},
		"node": {
			argv: []string{testenv.Tool(ctx, t, "node.sh"), filepath.Join("node", "client.mjs")},
			env:  []string{"NODE_MODULES=" + testenv.Tool(ctx, t, "npm.sh", filepath.Join(folder, "node"))},
		},
	}
	if !draw.Whole() {
		return clients
	}
	// Building the client for Go takes two minutes of processor time.
	built := filepath.Join(t.TempDir(), "client")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(folder, "go"), "-o", built, ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	clients["go"] = program{argv: []string{built}}
	return clients
}

// scenarios returns the names of the scenarios of the engine, except those that leave a connection open.
func scenarios() []string {
	return []string{
		"audio", "border", "busy", "compressed", "cut", "embedding", "failure", "final", "limit", "lost", "missing", "model", "page", "plain",
		"redirect", "response", "responses", "slash", "stream",
	}
}

// call runs a client and returns what its user sees, by scenario.
func call(ctx context.Context, t *testing.T, client program, in task, scenarios ...string) map[string]outcome {
	t.Helper()
	in.Scenarios = scenarios
	cmd := exec.CommandContext(ctx, client.argv[0], client.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = "testdata", append(os.Environ(), client.env...), &bytes.Buffer{}
	input, err := json.Marshal(in)
	require.NoError(t, err)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	require.NoError(t, err, cmd.Stderr)
	seen := map[string]outcome{}
	require.NoError(t, json.Unmarshal(out, &seen), string(out))
	return seen
}

// requireSame checks that a client behaves through the deployment as it does without, except where the proxy reports what
// happened to the engine: a loss is an error that must not be repeated, and a wait has a limit.
func requireSame(t *testing.T, client string, direct, proxied map[string]outcome) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for name, seen := range direct {
		want[name] = seen.String()
	}
	for name, seen := range proxied {
		got[name] = seen.String()
	}
	maps.Copy(want, reported()[client])
	require.Equal(t, want, got)
	require.Equal(t, `result 0  "hello" 7 tokens [7 12 e]`, got["plain"])
	require.Contains(t, got["model"], "org/100%")
}

// reported returns the outcomes that differ, by client and scenario.
func reported() map[string]map[string]string {
	return map[string]map[string]string{
		"python": {
			"border": `APIError 0 engine_lost "he" 0 tokens []`,
			"lost":   `InternalServerError 502 engine_lost "" 0 tokens []`,
			"late":   `InternalServerError 502 engine_timeout "" 0 tokens []`,
			"pause":  `APIError 0 engine_timeout "he" 0 tokens []`,
		},
		"node": {
			"border": `APIError 0 engine_lost "he" 0 tokens []`,
			"lost":   `InternalServerError 502 engine_lost "" 0 tokens []`,
			"late":   `InternalServerError 502 engine_timeout "" 0 tokens []`,
			"pause":  `APIError 0 engine_timeout "he" 0 tokens []`,
		},
		"go": {
			"border": `*ssestream.StreamError 0 in the stream "he" 0 tokens []`,
			"lost":   `Error 502 engine_lost "" 0 tokens []`,
			"late":   `Error 502 engine_timeout "" 0 tokens []`,
			"pause":  `*ssestream.StreamError 0 in the stream "he" 0 tokens []`,
		},
	}
}

// executions returns how often the engine executed each scenario for each client.
func executions(ctx context.Context, t *testing.T, in task) map[string]int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL+"/executions", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+in.Key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	counts := map[string]int{}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&counts))
	delete(counts, "default") // the probes of the deployment
	return counts
}

// requireExecutions checks that the engine works as often as without the proxy, and only once on what was lost.
func requireExecutions(t *testing.T, direct, proxied map[string]int) {
	t.Helper()
	for model := range proxied {
		name, _, _ := strings.Cut(model, "/")
		if name == "lost" || name == "late" || name == "pause" {
			direct[model] = 1
		}
	}
	require.Equal(t, direct, proxied)
}
