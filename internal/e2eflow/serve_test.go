package e2eflow

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// models adds the routes of a model registry that accepts each name only once.
func (a *api) models() {
	var mu sync.Mutex
	made, version := false, 0
	a.mux.HandleFunc("GET /api/models", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if made && r.URL.Query().Get("name") == "walk" {
			_, _ = io.WriteString(w, `[{"id":"mdl_0","name":"walk-2"},{"id":"mdl_1","name":"walk"}]`)
			return
		}
		_, _ = io.WriteString(w, `[]`)
	})
	a.mux.HandleFunc("POST /api/models", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if made {
			w.WriteHeader(http.StatusConflict)
			return
		}
		made = true
		_, _ = io.WriteString(w, `{"id":"mdl_1","name":"walk"}`)
	})
	a.mux.HandleFunc("POST /api/models/mdl_1/versions", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		version++
		_, _ = fmt.Fprintf(w, `{"id":"mvr_%d","model_id":"mdl_1","version":%d,"status":"ready","digest":"sha256:ab"}`, version, version)
	})
}

func TestRegisterTwiceMakesOneModel(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.models()
	l := a.loop(long)
	for n := 1; n <= 2; n++ {
		v, err := l.Register(t.Context(), Artifact{ID: fmt.Sprintf("art_%d", n)})
		require.NoError(t, err)
		require.Equal(t, ModelVersion{ID: fmt.Sprintf("mvr_%d", n), ModelID: "mdl_1", Version: n, Status: "ready", Digest: "sha256:ab"}, v)
	}
	all := a.requests()
	source := map[string]any{"source": map[string]any{"run_id": "run_1", "artifact_id": "art_2"}}
	require.Equal(t, source, all[len(all)-1].body)
}

func TestLoop_Register_failedVersion(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/models", ok(`[{"id":"mdl_1","name":"walk"}]`))
	a.respond("POST /api/models/mdl_1/versions", ok(`{"status":"failed","status_reason":"digest does not match"}`))
	_, err := a.loop(long).Register(t.Context(), Artifact{ID: "art_1"})
	require.ErrorContains(t, err, "the model version is failed: digest does not match")
}

func TestDeploy(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/model-deployments", ok(`{"id":"dep_2","url":"http://x/inference/dep_2","promoted_revision":null}`))
	a.respond("POST /api/model-deployments/dep_2/revisions", ok(`{"id":"rev_1","number":1,"state":"pending"}`), ok(`{"id":"rev_2","number":2,"state":"pending"}`))
	a.respond("GET /api/model-deployments/dep_2/revisions/1", ok(`{"id":"rev_1","number":1,"state":"starting"}`), ok(`{"id":"rev_1","number":1,"state":"ready","ready":true}`))
	l := a.loop(long)
	serving := map[string]any{"engine": "command"}
	require.NoError(t, l.Deploy(t.Context(), "chat", ModelVersion{ModelID: "mdl_1", Version: 3}, serving))
	require.NoError(t, l.AwaitReady(t.Context()))
	require.True(t, l.Revision.Ready)
	require.NoError(t, l.Revise(t.Context(), ModelVersion{ModelID: "mdl_1", Version: 4}, nil))
	require.Equal(t, Revision{ID: "rev_2", Number: 2, State: "pending"}, l.Revision, "no field of the last revision remains")
	all := a.requests()
	require.Equal(t, map[string]any{"source": map[string]any{"model_id": "mdl_1", "version": 3.0}, "serving": map[string]any{"engine": "command"}}, all[1].body)
	require.Equal(t, map[string]any{"source": map[string]any{"model_id": "mdl_1", "version": 4.0}, "serving": map[string]any{"args": []any{"--threads", "1"}}}, all[len(all)-1].body)
}

func TestLoop_AwaitReady_failedRevision(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/model-deployments/dep_1/revisions/1",
		ok(`{"number":1,"state":"failed","ready":false,"reason":{"phase":"start","code":"engine_exit","message":"ended with 3","log_excerpt":"no such tensor"}}`))
	err := a.loop(long).AwaitReady(t.Context())
	require.ErrorContains(t, err, "start/engine_exit: ended with 3\nno such tensor")
	bare := newAPI(t)
	bare.respond("GET /api/model-deployments/dep_1/revisions/1", ok(`{"number":1,"state":"failed","reason":null}`))
	require.ErrorContains(t, bare.loop(long).AwaitReady(t.Context()), "the revision failed")
	stuck := newAPI(t)
	stuck.respond("GET /api/model-deployments/dep_1/revisions/1", ok(`{"number":1,"state":"starting"}`))
	err = runWithTimeout(t, stuck, 2, func(l *Loop) error { return l.AwaitReady(t.Context()) })
	require.ErrorIs(t, err, ErrTimeout)
	require.ErrorContains(t, err, "it is starting")
}

func TestLoop_PromoteTooEarly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		response response
		want     string
	}{
		"conflict": {response{status: 409, body: `{"detail":"not ready"}`}, ""},
		"success":  {ok(`{}`), "want 409, got <nil>"},
		"absent":   {response{status: 404, body: `{"detail":"no such revision"}`}, "want 409, got 404: no such revision"},
	} {
		a := newAPI(t)
		a.respond("POST /api/model-deployments/dep_1/revisions/1/promote", tc.response)
		err := a.loop(long).PromoteTooEarly(t.Context())
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.want, name)
	}
}

func TestPromoteAndStop(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/model-deployments/dep_1/revisions/1/promote", response{status: 503}, ok(`{"id":"dep_1","promoted_revision":1}`))
	a.respond("POST /api/model-deployments/dep_1/revisions/2/stop", ok(`{}`), response{status: 409, body: `{"detail":"it is promoted"}`})
	l := a.loop(long)
	require.NoError(t, l.Promote(t.Context()))
	require.Equal(t, 1, *l.Deployment.Promoted)
	require.NoError(t, l.StopRevision(t.Context(), Revision{Number: 2}))
	require.ErrorContains(t, l.StopRevision(t.Context(), Revision{Number: 2}), "stop revision 2: 409: it is promoted")
}

// tokens adds the routes for deployment tokens. As in the real API, a repeat with the same Idempotency-Key returns no
// secret. A response whose number is listed in the parameter lost is aborted after the token was created. As many
// revocations as the parameter away states fail at first, with 502. The function live returns the ids of the tokens
// that are not revoked.
func (a *api) tokens(away int, lost ...int) (live func() []string) {
	var mu sync.Mutex
	made, kept := map[string]string{}, map[string]bool{}
	responses := 0
	a.mux.HandleFunc("POST /api/model-deployments/dep_1/tokens", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		responses++
		id, again := made[r.Header.Get("Idempotency-Key")]
		text := "null"
		if !again {
			id = fmt.Sprintf("tok_%d", len(made)+1)
			made[r.Header.Get("Idempotency-Key")], kept[id] = id, true
			text = `"dtk_` + id + `"`
		}
		if slices.Contains(lost, responses) {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprintf(w, `{"id":%q,"token":%s}`, id, text)
	})
	a.mux.HandleFunc("DELETE /api/model-deployments/dep_1/tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if away--; away >= 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		delete(kept, r.PathValue("id"))
		w.WriteHeader(http.StatusNoContent)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(kept))
	}
}

func TestMakeToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		away int
		lost []int
		want string
	}{
		"no loss":                       {0, nil, "tok_1"},
		"response lost":                 {0, []int{1}, "tok_2"},
		"response and its repeat lost":  {0, []int{1, 2}, "tok_2"},
		"responses of two tokens lost":  {0, []int{1, 3}, "tok_3"},
		"response lost, revoking fails": {2, []int{1}, "tok_2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			live := a.tokens(tc.away, tc.lost...)
			l := a.loop(long)
			require.NoError(t, l.MakeToken(t.Context(), "demo"))
			require.Equal(t, tc.want, l.TokenID)
			require.Equal(t, "dtk_"+tc.want, l.Token.Reveal())
			require.Equal(t, []string{tc.want}, live(), "tokens with lost secrets are revoked")
			for _, one := range a.requests() {
				require.True(t, one.body == nil || one.body["name"] == "demo")
			}
		})
	}
}

func TestLoop_MakeToken_givesUpAfterRepeatedLoss(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	live := a.tokens(0, 1, 3, 5, 7, 9)
	l := a.loop(long)
	l.Token, l.TokenID = secret.New("dtk_before"), "tok_before"
	require.ErrorContains(t, l.MakeToken(t.Context(), "demo"), "lost 5 times")
	require.Empty(t, live())
	require.Equal(t, "tok_before", l.TokenID, "the known token stays")
	require.Equal(t, "dtk_before", l.Token.Reveal())
}

func TestLoop_MakeToken_refused(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/model-deployments/dep_1/tokens", response{status: 404, body: `{"detail":"no such deployment"}`})
	require.ErrorContains(t, a.loop(long).MakeToken(t.Context(), "demo"), "create a token: 404: no such deployment")
	held := newAPI(t)
	held.respond("POST /api/model-deployments/dep_1/tokens", ok(`{"id":"tok_1","token":null}`))
	held.respond("DELETE /api/model-deployments/dep_1/tokens/tok_1", response{status: 403, body: `{"detail":"not yours"}`})
	require.ErrorContains(t, held.loop(long).MakeToken(t.Context(), "demo"), "revoke a token whose secret was lost: 403: not yours")
}

func TestLoop_Chat_sendsDeploymentToken(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const path = "POST /inference/dep_1/v1/chat/completions"
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "" && r.ContentLength > 0 {
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"73"}}]}`)
		}
	})
	l := a.loop(long)
	l.Client, l.Token = l.Client.With(secret.New("login")), secret.New("dtk_1")
	got, err := l.Chat(t.Context(), "27+46?")
	require.NoError(t, err)
	require.Equal(t, "73", got)
	for _, one := range a.requests() {
		require.Equal(t, "Bearer dtk_1", one.bearer)
	}
}

func TestLoop_Chat_retriesUnavailableEngine(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /inference/dep_1/v1/chat/completions", response{status: 503}, response{status: 502}, ok(`{"choices":[{"message":{"content":"73"}}]}`))
	got, err := a.loop(long).Chat(t.Context(), "27+46?")
	require.NoError(t, err)
	require.Equal(t, "73", got)
	refused := newAPI(t)
	refused.respond("POST /inference/dep_1/v1/chat/completions", response{status: 401, body: `{"detail":"revoked"}`})
	_, err = refused.loop(long).Chat(t.Context(), "27+46?")
	require.ErrorContains(t, err, "revoked")
}

func TestAwaitTraffic(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	row, err := json.Marshal(Call{RequestID: "req_1", Status: 200, Outcome: "ok", TokenName: "demo", RevisionNumber: 1})
	require.NoError(t, err)
	one := string(row)
	a.respond("GET /api/model-deployments/dep_1/traffic", ok(`[]`), ok("["+one+"]"), ok("["+one+","+one+"]"))
	calls, err := a.loop(long).AwaitTraffic(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Equal(t, "demo", calls[0].TokenName)
	err = runWithTimeout(t, a, len(a.requests())+2, func(l *Loop) error {
		var err error
		calls, err = l.AwaitTraffic(t.Context(), 3)
		return err
	})
	require.ErrorIs(t, err, ErrTimeout)
	require.ErrorContains(t, err, "it has 2")
	require.Len(t, calls, 2)
}
