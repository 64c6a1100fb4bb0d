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
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/oidcprovider"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// fewExamples is the number of examples per operation if SCHEMATHESIS is not set.
	fewExamples = 1
	// In `make test` one operation in operationShare gets random requests; every operation gets a request that succeeds.
	operationShare = 10
	// person is the user that the provider knows.
	person = "ann"
	// fuzzed is the file for the table of operations by statuses, relative to the checkout.
	fuzzed = ".cache/schemathesis.txt"
)

// TestSchemathesis runs test/schemathesis: it calls every operation with valid and invalid requests and every kind of
// credential, and checks each response against the OpenAPI document. It uses an installation of its own, which is
// changed arbitrarily, and one with sign-in by a provider. SCHEMATHESIS is the number of examples, ONLY a part of the ids
// of the operations to call, SECONDS_LEFT the time after which no random requests start.
func TestSchemathesis(t *testing.T) {
	w := newWorld(t, testenv.Single(t, testenv.Options{Env: settings()}))
	idp := oidcprovider.New(t)
	idp.Knows(oidcprovider.People{person: {"groups": []string{"staff"}}})
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
	values := w.values(t)
	values["oidc_url"], values["oidc_person"] = provided.URL, person
	content, err := json.Marshal(map[string]any{"values": values, "examples": bodies(t)})
	require.NoError(t, err)
	world := filepath.Join(t.TempDir(), "world.json")
	require.NoError(t, os.WriteFile(world, content, 0o600))

	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "fuzz.py", "--url", w.URL, "--world", world,
		"--document", filepath.Join(root, "gen/openapi/openapi.json"), "--report", filepath.Join(root, fuzzed),
		"--examples", strconv.Itoa(examples), "--seconds", cmp.Or(os.Getenv("SECONDS_LEFT"), "3600"), "--only", os.Getenv("ONLY"),
		"--share", strconv.Itoa(share), "--seed", strconv.FormatUint(draw.Seed(t), 10))
	cmd.Dir = filepath.Join(root, "test/schemathesis")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err, "the table is in %s\n%s", fuzzed, w.Tail())
}

// values returns the world's variables, without those that are built per golden.
func (w *world) values(t *testing.T) map[string]string {
	t.Helper()
	engine, err := json.Marshal(fixtures.Engine())
	require.NoError(t, err)
	out := map[string]string{"engine": string(engine)}
	get := w.variables(t)
	for _, p := range w.pieces {
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
