package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// world is an installation with the objects that the tests share: two users, a run that has reported everything, and a
// node that never starts.
type world struct {
	*testenv.Installation

	ctx    context.Context //nolint:containedctx // that of the test of the installation, for the set-up of scripts
	bin    string
	away   string // an address where nothing listens
	tokens map[string]secret.String
	admin  *client.Client
	ghost  string // the id of the node
	// version is that of the server.
	version string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := testenv.Single(t, testenv.Options{Env: map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1", "SERVICE_AGENT_PYTHONS": "site=" + interpreter(t),
	}})
	w := &world{
		Installation: s, ctx: t.Context(), bin: testenv.Bin(t, "signalbox"), away: "http://" + s.FreeAddress(), tokens: map[string]secret.String{},
	}
	w.signIn(t, "admin", s.Password.Reveal())
	w.admin = client.New(s.URL, nil).With(w.tokens["admin"])
	const password = "a good password of ada"
	w.do(t, http.MethodPost, "/api/admin/users", map[string]any{"username": "ada", "role": "operator", "password": password}, nil)
	w.signIn(t, "ada", password)
	var v struct {
		Server string `json:"server"`
	}
	w.do(t, http.MethodGet, "/api/version", nil, &v)
	w.version = v.Server
	w.report(t)
	w.joinGhost(t)
	return w
}

// interpreter returns the path of an interpreter with a module that no other one has.
func interpreter(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	require.NoError(t, exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", dir).Run())
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.WriteFile(filepath.Join(found[0], "site_stack.py"), []byte("name = 'the stack of the site'\n"), 0o644))
	return filepath.Join(dir, "bin", "python3")
}

func (w *world) signIn(t *testing.T, name, password string) {
	t.Helper()
	token, err := w.newToken(t.Context(), name, password)
	require.NoError(t, err)
	w.tokens[name] = token
}

// newToken signs a user in.
func (w *world) newToken(ctx context.Context, name, password string) (secret.String, error) {
	var in struct {
		Token string `json:"token"`
	}
	err := client.New(w.URL, nil).Post(ctx, "/api/auth/login", map[string]string{"username": name, "password": password}, &in)
	return secret.New(in.Token), err
}

// do sends a request as admin, which must succeed.
func (w *world) do(t *testing.T, method, path string, body, out any) {
	t.Helper()
	require.NoError(t, w.admin.Do(t.Context(), method, path, body, out), "%s %s", method, path)
}

// makeProject creates a project, with ada as an editor.
func (w *world) makeProject(key string) error {
	var made struct {
		ID string `json:"id"`
	}
	if err := w.admin.Post(w.ctx, "/api/projects", map[string]any{"key": key, "name": key, "visibility": "all"}, &made); err != nil {
		return err
	}
	return w.admin.Do(w.ctx, http.MethodPut, "/api/projects/"+made.ID+"/members/ada", map[string]any{"role": "editor"}, nil)
}

// reporter is a run without a job, which the test reports.
type reporter struct {
	t     *testing.T
	c     *client.Client
	ID    string
	Token string
	sent  int // the number of rounds
}

// newRun creates a run that the test reports.
func (w *world) newRun(t *testing.T, project, name string) *reporter {
	t.Helper()
	var made struct {
		Run struct {
			ID string `json:"id"`
		} `json:"run"`
		Token string `json:"token"`
	}
	w.do(t, http.MethodPost, "/api/runs", map[string]any{"name": name, "project": project, "silence_s": 3600}, &made)
	return &reporter{t: t, c: client.New(w.URL, nil).With(secret.New(made.Token)), ID: made.Run.ID, Token: made.Token}
}

// try sends a report.
func (r *reporter) try(kind string, fields map[string]any) error {
	body := map[string]any{"run_id": r.ID}
	maps.Copy(body, fields)
	return r.c.Post(r.t.Context(), "/api/ingest/"+kind, body, nil)
}

// send sends a report, which must succeed.
func (r *reporter) send(kind string, fields map[string]any) {
	r.t.Helper()
	require.NoError(r.t, r.try(kind, fields), kind)
}

func (r *reporter) lifecycle(event string) {
	r.t.Helper()
	r.send("lifecycle", map[string]any{"event": event, "ts": stamp(0)})
}

// stamp returns the time of a report.
func stamp(step int) string {
	return fixtures.Now().Add(time.Duration(step) * time.Second).Format("2006-01-02T15:04:05+00:00")
}

// upload uploads a file of the run and registers it as an artifact.
func (r *reporter) upload(name, kind, format string, data []byte) {
	r.t.Helper()
	sum := sha256.Sum256(data)
	query := url.Values{
		"run_id": {r.ID}, "kind": {kind}, "path": {name}, "size_bytes": {fmt.Sprint(len(data))}, "sha256": {hex.EncodeToString(sum[:])},
	}
	var ticket struct {
		URL       string            `json:"url"`
		Method    string            `json:"method"`
		Headers   map[string]string `json:"headers"`
		ObjectURI string            `json:"object_uri"`
	}
	require.NoError(r.t, r.c.Get(r.t.Context(), "/api/ingest/artifact/upload-url", query, &ticket))
	require.NoError(r.t, r.c.Upload(r.t.Context(), ticket.Method, ticket.URL, ticket.Headers, data))
	r.send("artifact", map[string]any{"kind": kind, "path": ticket.ObjectURI, "format": format, "step": 3, "size_bytes": len(data)})
}

// steps is the number of values of the curve.
const steps = 40

// report creates the run "curve" in the project shown, and reports everything that commands show. Further runs are in the
// project apart, so that the lists of scripts do not contain them.
func (w *world) report(t *testing.T) {
	t.Helper()
	for _, key := range []string{"shown", "apart"} {
		require.NoError(t, w.makeProject(key))
	}
	r := w.newRun(t, "shown", "curve")
	r.lifecycle("running")
	r.send("hparams", map[string]any{"params": map[string]any{"optim.lr": 0.002}})
	var points []any
	for step := range steps {
		for key, value := range map[string]float64{"train/loss": 1 / float64(step+1), "val/exact_match": float64(step) / steps} {
			points = append(points, map[string]any{"key": key, "step": step, "value": value, "ts": stamp(step)})
		}
	}
	r.send("metrics", map[string]any{"points": points})
	r.send("validation", map[string]any{"step": 3, "avg_reward": 0.5, "accuracy": 0.5, "samples": []any{
		map[string]any{"user": "1+1?", "assistant": "2", "env": "sums", "reward": 1},
		map[string]any{"user": "2+2?", "assistant": "5\x1b[31m", "env": "sums", "reward": 0},
	}})
	r.send("logs", map[string]any{"chunks": []string{"step 1 loss 1.0\nstep 2 loss 0.5\nstep 3 loss 0.33\n"}})
	r.upload("model.gguf", "merged_model", "gguf", fixtures.GGUF("curve"))
	r.upload("early.gguf", "checkpoint", "gguf", fixtures.GGUF("early"))
	r.upload("notes.txt", "hf_export", "files", bytes.Repeat([]byte("a note\n"), 300))
	r.lifecycle("succeeded")
	w.export(t)
	w.until(t, "the log of the run is complete", func() bool {
		var lines []any
		w.do(t, http.MethodGet, "/api/runs/"+r.ID+"/logs", nil, &lines)
		return len(lines) == 3
	})
}

// export creates the run "export", which has made a folder with a model.
func (w *world) export(t *testing.T) {
	t.Helper()
	r := w.newRun(t, "apart", "export")
	r.lifecycle("running")
	folder, err := fixtures.Folder("export")
	require.NoError(t, err)
	r.upload("model.tar", "merged_model", "safetensors", folder)
	r.lifecycle("succeeded")
}

// until waits for a condition.
func (w *world) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const every = 20 * time.Millisecond
	require.Eventually(t, condition, testenv.StageTimeout, every, "timed out waiting until %s", what)
}

// joinGhost joins a node of a fleet of its own that never starts.
func (w *world) joinGhost(t *testing.T) {
	t.Helper()
	var fleet, join, node struct {
		ID     string `json:"id"`
		Token  string `json:"token"`
		NodeID string `json:"node_id"`
	}
	w.do(t, http.MethodPost, "/api/fleets", map[string]any{"name": "ghosts", "kind": "agent", "pools": []string{"ghosts"}}, &fleet)
	w.do(t, http.MethodPost, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join)
	csr, err := fixtures.CertificateRequest()
	require.NoError(t, err)
	w.do(t, http.MethodPost, "/api/fleets/join", map[string]any{"token": join.Token, "hostname": "ghost", "certificate_request": csr}, &node)
	w.ghost = node.NodeID
}
