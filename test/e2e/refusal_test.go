package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// refusal is an invalid job submission and the error of the check (the gate) that must reject it.
type refusal struct {
	// change makes a valid submission invalid. It calls set to replace the value at a path.
	change func(set func(value any, path ...string))
	status int
	gate   string
	detail string // the complete text, or its beginning followed by ...
	field  []any  // location of the error of a 422
}

const other = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func refusals() map[string]refusal {
	pool := func(fields map[string]any) []any {
		return []any{fields}
	}
	return map[string]refusal{
		"another dialect": {
			func(set func(any, ...string)) { set("service/v2", "api") },
			400, "dialect", "this control plane accepts service/v1, the submission uses service/v2", nil,
		},
		"a wrong lock": {
			func(set func(any, ...string)) { set(other, "spec", "recipe", "lock", "digest") },
			400, "recipe_handshake", "digest is " + other + " in recipe.lock.json and ...", nil,
		},
		"a lock of another version": {
			func(set func(any, ...string)) { set("0.9.0", "spec", "recipe", "lock", "version") },
			400, "recipe_handshake", "version is 0.9.0 in recipe.lock.json and ...", nil,
		},
		"a lock of another recipe": {
			func(set func(any, ...string)) { set("custom/custom", "spec", "recipe", "lock", "name") },
			400, "recipe_handshake", "name is custom/custom in recipe.lock.json and ...", nil,
		},
		"a lock of another runtime": {
			func(set func(any, ...string)) { set("torch", "spec", "recipe", "lock", "framework", "runtime_id") },
			400, "recipe_handshake", "framework.runtime_id is torch in recipe.lock.json and ...", nil,
		},
		"a version that is not in the catalog": {
			func(set func(any, ...string)) {
				set("0.9.0", "spec", "recipe", "version")
				set("0.9.0", "spec", "recipe", "lock", "version")
			},
			400, "recipe_handshake", "the catalog has no version 0.9.0 of demo/chat-tiny", nil,
		},
		"an unknown recipe": {
			func(set func(any, ...string)) { set("demo/none", "spec", "recipe", "name") },
			400, "recipe_handshake", "the catalog has no recipe demo/none", nil,
		},
		"an entrypoint": {
			func(set func(any, ...string)) { set("train.py", "spec", "source", "entrypoint") },
			400, "entrypoint_override", "spec.source.entrypoint must be empty...", nil,
		},
		"a command for a recipe with its own entrypoint": {
			func(set func(any, ...string)) { set([]string{"id"}, "spec", "source", "command") },
			400, "entrypoint_override", "spec.source.command is allowed only for the recipe custom/custom...", nil,
		},
		"no pools": {
			func(set func(any, ...string)) { set([]any{}, "spec", "resources", "pools") },
			422, "schema", "",
			[]any{"body", "spec", "resources", "pools"},
		},
		"no resources": {
			func(set func(any, ...string)) { set(nil, "spec", "resources") },
			422, "schema", "",
			[]any{"body", "spec", "resources"},
		},
		"an unknown dataset": {
			func(set func(any, ...string)) { set("ds/default/none@v1", "spec", "bindings", "datasets", "train") },
			400, "bindings", "no such reference: ds/default/none@v1", nil,
		},
		"an unknown version of a dataset": {
			func(set func(any, ...string)) { set("ds/default/refused@v2", "spec", "bindings", "datasets", "train") },
			400, "bindings", "no such reference: ds/default/refused@v2", nil,
		},
		"no dataset": {
			func(set func(any, ...string)) { set(map[string]any{}, "spec", "bindings", "datasets") },
			400, "bindings", "the recipe demo/chat-tiny needs the dataset train", nil,
		},
		"over quota": {
			func(set func(any, ...string)) {
				set(pool(map[string]any{"pool": "far", "nodes": 2, "gpus_per_node": 8}), "spec", "resources", "pools")
			},
			403, "quota", "requested 16 GPUs, 8 available", nil,
		},
		"an unknown pool": {
			func(set func(any, ...string)) {
				set(pool(map[string]any{"pool": "none"}), "spec", "resources", "pools")
			},
			400, "hardware", "pool none does not exist", nil,
		},
		"more CPUs than the nodes have": {
			func(set func(any, ...string)) {
				set(pool(map[string]any{"pool": "default", "cpu": 4096}), "spec", "resources", "pools")
			},
			400, "hardware", "pool default has 0 of the 1 requested nodes...", nil,
		},
		"an image from another registry": {
			func(set func(any, ...string)) { set("registry.evil.example/x:1", "spec", "image", "ref") },
			400, "image_registry", "the registry registry.evil.example is not on the allowlist of this installation", nil,
		},
		"an image from a registry with a similar name": {
			func(set func(any, ...string)) { set("good.example.evil.example/x:1", "spec", "image", "ref") },
			400, "image_registry", "the registry good.example.evil.example is not on the allowlist of this installation", nil,
		},
		"an allowed image": {
			func(set func(any, ...string)) { set("good.example/x:1", "spec", "image", "ref") },
			501, "containers", "pool default runs no containers; remove spec.image", nil,
		},
		"an unknown hyperparameter": {
			func(set func(any, ...string)) { set(map[string]any{"lr": 0.1}, "spec", "hparams") },
			400, "hparams", "lr is not a parameter of the recipe; did you mean optim.lr?", nil,
		},
		"a hyperparameter of another type": {
			func(set func(any, ...string)) { set(map[string]any{"train.batch": "many"}, "spec", "hparams") },
			400, "hparams", "train.batch must be of type integer", nil,
		},
		"a hyperparameter out of bounds": {
			func(set func(any, ...string)) { set(map[string]any{"train.batch": 0}, "spec", "hparams") },
			400, "hparams", "train.batch must be at least 1, got 0", nil,
		},
		"a variable of the loader": {
			func(set func(any, ...string)) { set(map[string]any{"LD_PRELOAD": "/x.so"}, "spec", "env") },
			400, "environment", "LD_PRELOAD is reserved by the platform and cannot be set", nil,
		},
		"a variable of the platform": {
			func(set func(any, ...string)) { set(map[string]any{"service_job_token": "x"}, "spec", "env") },
			400, "environment", "service_job_token is reserved by the platform and cannot be set", nil,
		},
		"an unknown project": {
			func(set func(any, ...string)) { set("none", "spec", "project") },
			400, "project", "no such project: none", nil,
		},
	}
}

// TestRefusals submits invalid jobs. It requires that the expected gate rejects each of them, and that no row and no
// object is left behind.
func TestRefusals(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) {
			requireNothingStored(t, start(t, testenv.Options{Env: map[string]string{"SERVICE_JOBS_IMAGE_REGISTRIES": "good.example"}}))
		})
	}
}

func requireNothingStored(t *testing.T, s *testenv.Installation) {
	t.Helper()
	ctx := t.Context()
	conn := database(ctx, t, s)
	l := s.Loop(ctx)
	l.Name = "refused"
	dataset, err := l.PushDataset(ctx, "v1", "rows.jsonl", []byte("{}\n"))
	require.NoError(t, err)
	good, err := l.Spec(ctx, dataset, map[string]any{}, 1)
	require.NoError(t, err)
	fleet := map[string]any{"name": "far", "kind": "agent", "pools": []string{"far"}}
	require.NoError(t, l.Client.Post(ctx, "/api/fleets", fleet, nil))
	olive := createOperator(ctx, t, s, conn)
	s.Until(ctx, "the node is connected", func() bool {
		var nodes []struct{ State string }
		return l.Client.Get(ctx, "/api/cluster/nodes", nil, &nodes) == nil && len(nodes) == 1 && nodes[0].State == "ready"
	})
	before := settledCounts(ctx, t, s, conn)
	for name, c := range refusals() {
		t.Run(name, func(t *testing.T) {
			e := submitRefused(ctx, t, l.Client.WithIdempotencyKey("refused-"+strings.ReplaceAll(name, " ", "-")), changed(t, good, c.change))
			require.Equal(t, c.status, e.Status, "%s", e.Body)
			require.Equal(t, c.gate, e.Code)
			c.requireDetail(t, e)
			require.Equal(t, before, countRows(ctx, t, s, conn), "a rejected submission must leave nothing behind")
		})
	}
	t.Run("a hidden dataset", func(t *testing.T) { requireHiddenDatasetRefused(ctx, t, conn, olive, good) })
	t.Run("valid submission accepted", func(t *testing.T) {
		require.NoError(t, l.Submit(ctx, good))
		require.NotEqual(t, before, countRows(ctx, t, s, conn), "the counts must include the job")
	})
}

func (c refusal) requireDetail(t *testing.T, e *client.Error) {
	t.Helper()
	if c.field != nil {
		var body struct {
			Detail []entry `json:"detail"`
		}
		require.NoError(t, json.Unmarshal(e.Body, &body))
		require.True(t, reply{Fields: body.Detail}.at(c.field...), "%s", e.Body)
		return
	}
	want := c.gate + ": " + c.detail
	if head, open := strings.CutSuffix(want, "..."); open {
		require.True(t, strings.HasPrefix(e.Detail, head), e.Detail)
		return
	}
	require.Equal(t, want, e.Detail)
}

// changed returns a copy of the given valid submission, modified by the function change.
func changed(t *testing.T, good map[string]any, change func(set func(value any, path ...string))) map[string]any {
	t.Helper()
	raw, err := json.Marshal(good)
	require.NoError(t, err)
	var spec map[string]any
	require.NoError(t, json.Unmarshal(raw, &spec))
	change(func(value any, path ...string) {
		at := spec
		for _, name := range path[:len(path)-1] {
			if _, ok := at[name].(map[string]any); !ok {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		last := path[len(path)-1]
		if value == nil {
			delete(at, last)
			return
		}
		at[last] = value
	})
	return spec
}

func submitRefused(ctx context.Context, t *testing.T, c *client.Client, spec map[string]any) *client.Error {
	t.Helper()
	err := c.Post(ctx, "/api/jobs", spec, nil)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	return e
}

// createOperator creates a user olive with the role operator and the admin's password, and returns a client
// for this user.
func createOperator(ctx context.Context, t *testing.T, s *testenv.Installation, conn *pgx.Conn) *client.Client {
	t.Helper()
	_, err := conn.Exec(ctx, `
		INSERT INTO auth.account (id, username, role, password_hash, created_at)
		SELECT 'usr_00000000000000000000000000', 'olive', 'operator', password_hash, now() FROM auth.account WHERE username = 'admin'`)
	require.NoError(t, err)
	l := &e2eflow.Loop{Client: client.New(s.URL, nil), Clock: clock.Real(), Timeout: testenv.StageTimeout}
	require.NoError(t, l.Login(ctx, "olive", s.Password))
	return l.Client
}

// requireHiddenDatasetRefused binds a dataset that the caller cannot see. The error must be the same as for a dataset
// that does not exist.
func requireHiddenDatasetRefused(ctx context.Context, t *testing.T, conn *pgx.Conn, olive *client.Client, good map[string]any) {
	t.Helper()
	seen := submitRefused(ctx, t, olive, changed(t, good, func(set func(any, ...string)) { set("none", "spec", "project") }))
	require.Equal(t, "project", seen.Code, "a visible dataset must pass the bindings gate")
	_, err := conn.Exec(ctx, `UPDATE registry.dataset SET visibility = 'team', project_id = 'prj_00000000000000000000000000' WHERE name = 'refused'`)
	require.NoError(t, err)
	defer func() {
		_, err := conn.Exec(context.WithoutCancel(ctx), `UPDATE registry.dataset SET visibility = 'all',
			project_id = (SELECT id FROM auth.project WHERE key = 'default') WHERE name = 'refused'`)
		require.NoError(t, err)
	}()
	hidden := submitRefused(ctx, t, olive, good)
	require.Equal(t, http.StatusBadRequest, hidden.Status)
	require.Equal(t, "bindings", hidden.Code)
	absent := submitRefused(ctx, t, olive, changed(t, good, func(set func(any, ...string)) {
		set("ds/default/absent@v1", "spec", "bindings", "datasets", "train")
	}))
	require.Equal(t, strings.Replace(absent.Detail, "absent", "refused", 1), hidden.Detail)
}
