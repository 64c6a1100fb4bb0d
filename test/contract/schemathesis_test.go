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
	"github.com/signalbox-dev/signalbox/test/provider"
	"github.com/signalbox-dev/signalbox/test/sample"
	"github.com/signalbox-dev/signalbox/test/stand"
)

const (
	// fewExamples are those of an operation where SCHEMATHESIS says no other number.
	fewExamples = 1
	// In `make test` one operation in operationShare gets random requests; each is asked for what it does.
	operationShare = 10
	// person is whom the provider knows.
	person = "ann"
	// fuzzed keeps the table of operations by statuses, below the top of the checkout.
	fuzzed = ".cache/schemathesis.txt"
)

// TestSchemathesis asks every operation for what it takes and for what it does not, with every kind of credential,
// and holds each answer against the description: test/schemathesis. It has an installation of its own, which is not
// worth much afterwards, and one whose people sign in by a provider. SCHEMATHESIS is the number of examples, ONLY part of
// the ids of the operations to ask, SECONDS_LEFT when no more random requests begin.
func TestSchemathesis(t *testing.T) {
	w := newWorld(t, stand.Single(t, stand.Options{Env: settings()}))
	idp := provider.New(t)
	idp.Knows(provider.People{person: {"groups": []string{"staff"}}})
	provided := stand.Single(t, stand.Options{Env: idp.Settings()})
	examples, share := fewExamples, operationShare
	if given := os.Getenv("SCHEMATHESIS"); given != "" {
		n, err := strconv.Atoi(given)
		require.NoError(t, err, "SCHEMATHESIS is a number of examples")
		examples, share = n, 1
	}
	if draw.Whole() {
		share = 1
	}
	root := stand.Root(t)
	python, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/tools/schemathesis.sh")).Output()
	require.NoError(t, err, "scripts/tools/schemathesis.sh installs schemathesis")
	values := w.told(t)
	values["oidc_url"], values["oidc_person"] = provided.URL, person
	told, err := json.Marshal(map[string]any{"values": values, "examples": bodies(t)})
	require.NoError(t, err)
	world := filepath.Join(t.TempDir(), "world.json")
	require.NoError(t, os.WriteFile(world, told, 0o600))

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

// told are the world's variables, all but those that each golden has for itself.
func (w *world) told(t *testing.T) map[string]string {
	t.Helper()
	engine, err := json.Marshal(sample.Engine())
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

// bodies are the smallest ones, by operation.
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
