package leak

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// installation is an installation whose clients record all calls and credentials with a recorder.
type installation struct {
	*testenv.Installation

	credentialStore *credentialStore
	calls           *calls
	recorder        *recorder
	token           string // the admin's access token
	admin           *client.Client
	loop            *e2eflow.Loop
	people          byte
	// version is the model version that was registered from the artifact.
	version  e2eflow.ModelVersion
	artifact string
}

func open(ctx context.Context, t *testing.T, s *testenv.Installation) *installation {
	t.Helper()
	h := &installation{Installation: s, credentialStore: &credentialStore{}, calls: &calls{}}
	h.recorder = newRecorder(h.credentialStore, h.calls, 1)
	h.credentialStore.add("first password", s.Password.Reveal())
	h.loop = &e2eflow.Loop{Client: client.New(s.URL, h.recorder), Clock: clock.Real(), Name: "leak-" + randomName(t), Timeout: testenv.StageTimeout}
	var in struct{ Token string }
	require.NoError(t, h.loop.Client.Post(ctx, "/api/auth/login", map[string]string{"username": "admin", "password": s.Password.Reveal()}, &in), s.Tail())
	h.token, h.admin = in.Token, h.loop.Client.With(secret.New(in.Token))
	h.loop.Client = h.admin
	return h
}

func randomName(t *testing.T) string {
	t.Helper()
	var raw [6]byte
	_, err := rand.Read(raw[:])
	require.NoError(t, err)
	return hex.EncodeToString(raw[:])
}

// serve trains a model, deploys it and sends it a request.
func (h *installation) serve(ctx context.Context, t *testing.T) {
	t.Helper()
	l, lesson := h.loop, e2eflow.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(t, err)
	dataset, err := l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(t, err)
	spec, err := l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(t, err)
	h.do(ctx, t, http.MethodPost, "/api/submit/preflight", spec, nil)
	require.NoError(t, l.Submit(ctx, spec))
	require.NoError(t, l.AwaitEnd(ctx), h.Tail())
	artifact, err := l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(t, err)
	h.artifact = artifact.ID
	h.version, err = l.Register(ctx, artifact)
	require.NoError(t, err)
	require.NoError(t, l.Deploy(ctx, l.Name, h.version, nil))
	require.NoError(t, l.AwaitReady(ctx), h.Tail())
	require.NoError(t, l.Promote(ctx))
	require.NoError(t, l.MakeToken(ctx, "application"))
	h.credentialStore.add("deployment token", l.Token.Reveal())
	_, err = l.Chat(ctx, "1+1=")
	require.NoError(t, err, h.Tail())
}

// identities obtains credentials of the kinds that serve and ingest do not create, such as refresh tokens, a join
// token and temporary passwords.
func (h *installation) identities(ctx context.Context, t *testing.T) {
	t.Helper()
	var login bytes.Buffer
	require.NoError(t, json.NewEncoder(&login).Encode(map[string]string{"username": "admin", "password": h.Password.Reveal()}))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/api/auth/login", &login)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.recorder.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, resp.Cookies(), 1)
	again, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/api/auth/refresh", nil)
	require.NoError(t, err)
	again.AddCookie(resp.Cookies()[0])
	resp, err = h.recorder.RoundTrip(again)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	var fleet struct{ ID string }
	require.NoError(t, h.admin.Post(ctx, "/api/fleets", map[string]any{"name": h.loop.Name, "kind": "agent", "pools": []string{h.loop.Name}}, &fleet))
	require.NoError(t, h.admin.Post(ctx, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, nil))
	h.device(ctx, t)
	link := h.SignInLink(ctx)
	h.credentialStore.add("sign-in link", link)
	require.NoError(t, client.New(h.URL, h.recorder).Post(ctx, "/api/auth/link", map[string]string{"link": link}, nil))
	var created struct{ User struct{ ID string } }
	require.NoError(t, h.admin.Post(ctx, "/api/admin/users", map[string]any{"username": "ada-" + randomName(t), "role": "operator"}, &created))
	require.NoError(t, h.admin.Post(ctx, "/api/admin/users/"+created.User.ID+"/reset-password", map[string]any{}, nil))
	// Record a wrong password as well: it may be the password of another account.
	err = client.New(h.URL, h.recorder).Post(ctx, "/api/auth/login", map[string]string{"username": "admin", "password": "wrong-" + randomName(t)}, nil)
	require.Error(t, err)
	_, err = client.New(h.URL, h.recorder).With(secret.New("rft_"+randomName(t)+randomName(t)+randomName(t)+randomName(t))).Call(ctx, http.MethodGet, "/api/jobs", nil)
	require.NoError(t, err)
}

// device signs in a command line with the device flow.
func (h *installation) device(ctx context.Context, t *testing.T) {
	t.Helper()
	anyone := client.New(h.URL, h.recorder)
	var flow struct {
		Device string `json:"device_code"`
		User   string `json:"user_code"`
	}
	require.NoError(t, anyone.Post(ctx, "/api/cli/device/code", map[string]any{}, &flow))
	require.NoError(t, h.admin.Post(ctx, "/api/cli/device/requests/"+flow.User, map[string]any{"decision": "approve"}, nil))
	var granted struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, anyone.Post(ctx, "/api/cli/device/token", map[string]any{"device_code": flow.Device}, &granted))
	require.NotEmpty(t, granted.Token)
}

// ingest runs a command that writes the token of its run to a file, uses the token, and then controls the job.
func (h *installation) ingest(ctx context.Context, t *testing.T) {
	t.Helper()
	l := &e2eflow.Loop{Client: h.admin, Clock: clock.Real(), Timeout: testenv.StageTimeout, Name: h.loop.Name + "-own"}
	const name = "given-away"
	spec := testenv.Command(ctx, h.Installation, l, "sh", "-c", `printf %s "$SERVICE_JOB_TOKEN" > "$SERVICE_JOB_WORKDIR/`+name+`.new" &&
		mv "$SERVICE_JOB_WORKDIR/`+name+`.new" "$SERVICE_JOB_WORKDIR/`+name+`"; exec sleep 600`)
	within, ok := spec["spec"].(map[string]any)
	require.True(t, ok)
	within["checkpoint"] = map[string]any{"grace_s": 1, "required_for_pause": false}
	require.NoError(t, l.Submit(ctx, spec))
	token := ""
	h.Until(ctx, "the command has written its token", func() bool {
		path := h.Find(name, func(string) bool { return true })
		raw, err := os.ReadFile(path)
		token = string(raw)
		return err == nil
	})
	h.credentialStore.add("ingest token", token)
	h.report(ctx, t, token, http.MethodGet, "/api/ingest/watermark?run_id="+l.Job.RunID, "")
	h.report(ctx, t, token, http.MethodPost, "/api/ingest/lifecycle", `{"run_id": "`+l.Job.RunID+`", "event": "running", "ts": "2026-11-21T03:00:00+00:00"}`)
	require.NoError(t, l.AwaitState(ctx, "running"), h.Tail())
	h.controlJob(ctx, t, l)
}

// createRun creates a run without a job, reports its end and deletes it.
func (h *installation) createRun(ctx context.Context, t *testing.T) {
	t.Helper()
	var made struct {
		Run   struct{ ID string }
		Token string
	}
	h.do(ctx, t, http.MethodPost, "/api/runs", map[string]any{"name": "notebook"}, &made)
	h.credentialStore.add("ingest token", made.Token)
	h.report(ctx, t, made.Token, http.MethodPost, "/api/ingest/lifecycle",
		`{"run_id": "`+made.Run.ID+`", "event": "succeeded", "ts": "2026-11-21T03:00:00+00:00"}`)
	h.do(ctx, t, http.MethodDelete, "/api/runs/"+made.Run.ID, nil, nil)
}

// report calls a route with the token of a run.
func (h *installation) report(ctx context.Context, t *testing.T, token, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Service-Token", token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.recorder.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, path)
}

// controlJob pauses, resumes and stops a running job, and then retries and clones it.
func (h *installation) controlJob(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	at := "/api/jobs/" + l.Job.ID
	h.do(ctx, t, http.MethodPatch, at, map[string]any{"name": "renamed"}, nil)
	h.do(ctx, t, http.MethodPatch, "/api/runs/"+l.Job.RunID, map[string]any{"name": "renamed", "tags": []string{"tagged"}, "notes": "Noted."}, nil)
	h.createRun(ctx, t)
	h.do(ctx, t, http.MethodPost, "/api/runs/compare", map[string]any{"run_ids": []string{l.Job.RunID}, "points": 5, "prompts": 1}, nil)
	h.do(ctx, t, http.MethodPost, "/api/runs/aggregate", map[string]any{"group_by": []string{"owner"}}, nil)
	h.do(ctx, t, http.MethodPost, "/api/runs/search", map[string]any{"sort": "metric.loss.last"}, nil)
	h.do(ctx, t, http.MethodPost, at+"/pause", nil, nil)
	require.NoError(t, l.AwaitState(ctx, "paused"), h.Tail())
	h.do(ctx, t, http.MethodPost, at+"/resume", nil, nil)
	h.do(ctx, t, http.MethodPost, at+"/stop", nil, nil)
	require.NoError(t, l.AwaitState(ctx, "stopped"), h.Tail())
	for _, way := range []string{"/retry", "/clone"} {
		var body any
		if way == "/clone" {
			body = map[string]any{}
		}
		again := &e2eflow.Loop{Client: l.Client, Clock: l.Clock, Timeout: l.Timeout}
		h.do(ctx, t, http.MethodPost, at+way, body, &again.Job)
		h.do(ctx, t, http.MethodPost, "/api/jobs/"+again.Job.ID+"/stop?force=true", nil, nil)
		require.NoError(t, again.AwaitState(ctx, "stopped"), h.Tail())
		require.Eventually(t, func() bool {
			return h.admin.Do(ctx, http.MethodDelete, "/api/jobs/"+again.Job.ID, nil, nil) == nil
		}, l.Timeout, 100*time.Millisecond, "the node must release the work of a stopped job")
	}
}

// recordKeys records the keys in the folder of the installation, and the keys in its database, which it decrypts.
func (h *installation) recordKeys(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	err := filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "lock" {
			return nil //nolint:nilerr // a file that is gone by now holds no key
		}
		in := filepath.Base(filepath.Dir(path))
		if in != "keys" && in != "ca" && in != "node" && d.Name() != "password" {
			return nil
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.FieldsSeq(string(raw)) {
			if !strings.Contains(string(raw), "CERTIFICATE") && !strings.HasPrefix(line, "-----") && len(line) >= 24 {
				h.credentialStore.add("key in "+filepath.Join(in, d.Name()), line)
			}
		}
		return nil
	})
	require.NoError(t, err)
	ring, err := secret.LoadKeyring(filepath.Join(h.Dir, "data", "keys", "keyring"))
	require.NoError(t, err)
	for name, sealed := range map[string]string{
		"signing_key.sealed": `SELECT kid, sealed FROM auth.signing_key`, "work.engine_key": `SELECT id, engine_key FROM jobs.work WHERE engine_key IS NOT NULL`,
		"revision.api_key": `SELECT id, api_key FROM registry.revision WHERE api_key IS NOT NULL`,
	} {
		rows, err := conn.Query(ctx, sealed)
		require.NoError(t, err)
		var id string
		var value []byte
		n := 0
		_, err = pgx.ForEachRow(rows, []any{&id, &value}, func() error {
			plain, err := ring.Open(value, name+":"+id)
			h.credentialStore.add(name, string(plain))
			n++
			return err
		})
		require.NoError(t, err, name)
		require.Positive(t, n, name)
	}
}

// recordTokenHeaders records the header of every kind of token that the installation's keys sign. Clients do not see
// the tokens that are sent only between services. But every such token begins with one of these headers, and no text
// that may be stored contains such a header.
func (h *installation) recordTokenHeaders(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	rows, err := conn.Query(ctx, `SELECT kid FROM auth.signing_key`)
	require.NoError(t, err)
	kids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	own := false
	for _, kid := range kids {
		for _, typ := range []string{"at+jwt", "svc-caller+jwt"} {
			start := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"` + kid + `","typ":"` + typ + `"}`))
			h.credentialStore.add("start of an "+typ, start)
			own = own || strings.HasPrefix(h.token, start+".")
		}
	}
	require.True(t, own, "the admin's token must begin with one of the headers")
}

// testTimeout is the time limit of a test in this package.
const testTimeout = 8 * time.Minute
