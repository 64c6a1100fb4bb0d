package contract

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/openapi"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/oidcprovider"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// fewExamples is the number of examples per operation if SCHEMATHESIS is not set.
	fewExamples = 1
	// In `make test`, one in operationShare operations receives random requests. Every operation receives a request
	// that succeeds.
	operationShare = 10
	// person is the only user of the sign-in provider.
	person = "ann"
	// fuzzed is the path, relative to the checkout, of the file that lists the response statuses of every
	// operation.
	fuzzed = ".cache/schemathesis.txt"
)

// TestSchemathesis runs test/schemathesis, which calls every operation with valid and invalid requests and every kind
// of credential. It checks each response against the OpenAPI document. The requests may change anything, so the test
// has its own installation. A second installation uses a sign-in provider. SCHEMATHESIS is the number of examples for
// each operation. ONLY limits the test to operations whose id contains the given text. SECONDS_LEFT is the time after
// which no more random requests start.
func TestSchemathesis(t *testing.T) {
	env := settings()
	env["SERVICE_AGENT_ISOLATION"] = "none" // jobs write the tokens of their runs to files that the Python program reads
	w := newHarness(t, testenv.Single(t, testenv.Options{Env: env}))
	b := &builder{TB: t, harness: w, get: w.variables(t), set: w.set}
	w.OpenPool(t.Context(), b.as("admin"))
	idp := oidcprovider.New(t)
	idp.SetPeople(oidcprovider.People{person: {"groups": []string{"staff"}}})
	provided := testenv.Single(t, testenv.Options{Env: idp.Settings()})
	examples, share := fewExamples, operationShare
	if given := os.Getenv("SCHEMATHESIS"); given != "" {
		n, err := strconv.Atoi(given)
		require.NoError(t, err, "SCHEMATHESIS must be a number of examples")
		examples, share = n, 1
	}
	if draw.Whole() {
		share = 1
	}
	root := testenv.Root(t)
	python, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/tools/schemathesis.sh")).Output()
	require.NoError(t, err, "run scripts/tools/schemathesis.sh")
	values := w.sharedValues(t)
	values["oidc_url"], values["oidc_person"] = provided.URL, person
	values["sign_in_link"] = w.SignInLink(t.Context())
	content, err := json.Marshal(map[string]any{
		"values": values, "examples": bodies(t), "paths": pathValues(t, values), "endless": routes.Load().Endless(),
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "harness.json")
	require.NoError(t, os.WriteFile(file, content, 0o600))

	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "fuzz.py", "--url", w.URL, "--harness", file,
		"--document", filepath.Join(root, "gen/openapi/openapi.json"), "--report", filepath.Join(root, fuzzed),
		"--examples", strconv.Itoa(examples), "--seconds", cmp.Or(os.Getenv("SECONDS_LEFT"), "3600"), "--only", os.Getenv("ONLY"),
		"--share", strconv.Itoa(share), "--seed", strconv.FormatUint(draw.Seed(t), 10))
	cmd.Dir = filepath.Join(root, "test/schemathesis")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err, "the response statuses are in %s\n%s", fuzzed, w.Tail())
}

// sharedValues returns the variables of the shared objects, but not those that are built for each golden.
func (w *harness) sharedValues(t *testing.T) map[string]string {
	t.Helper()
	engine, err := json.Marshal(fixtures.Engine())
	require.NoError(t, err)
	out := map[string]string{"engine": string(engine)}
	get := w.variables(t)
	for _, p := range w.groups {
		for _, name := range p.vars {
			if p.own {
				continue
			}
			out[name], err = get(name)
			require.NoError(t, err)
		}
	}
	return out
}

// pathValues returns, for each path of the OpenAPI document, the values of those variables that the table of routes has one
// for. The parameter shared holds the variables of the shared objects.
func pathValues(t *testing.T, shared map[string]string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, op := range description(t).Operations() {
		out[op.Path] = map[string]string{}
		for _, name := range routes.Names(op.Path) {
			v, _ := routes.Load().Variable(op.Path, name)
			if v.Shared != "" {
				require.Contains(t, shared, v.Shared, "the table of routes takes the value of %s from this variable", v.Name)
			}
			if value := cmp.Or(shared[v.Shared], v.Present); value != "" {
				out[op.Path][name] = value
			}
		}
	}
	return out
}

// bodies returns the smallest valid body of each operation that takes one.
func bodies(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	document, err := openapi.Load()
	require.NoError(t, err)
	for _, op := range document.Operations() {
		body, err := op.Example(nil)
		require.NoError(t, err)
		if body != nil {
			out[op.ID] = body
		}
	}
	return out
}
