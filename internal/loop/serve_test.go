package loop

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

// models is a model registry of one name.
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

func TestAVersionThatIsRefusedIsAnError(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.says("GET /api/models", ok(`[{"id":"mdl_1","name":"walk"}]`))
	a.says("POST /api/models/mdl_1/versions", ok(`{"status":"failed","status_reason":"digest does not match"}`))
	_, err := a.loop(long).Register(t.Context(), Artifact{ID: "art_1"})
	require.ErrorContains(t, err, "the model version is failed: digest does not match")
}

func TestDeploy(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.says("POST /api/model-deployments", ok(`{"id":"dep_2","url":"http://x/inference/dep_2","promoted_revision":null}`))
	a.says("POST /api/model-deployments/dep_2/revisions", ok(`{"id":"rev_1","number":1,"state":"pending"}`), ok(`{"id":"rev_2","number":2,"state":"pending"}`))
	a.says("GET /api/model-deployments/dep_2/revisions/1", ok(`{"id":"rev_1","number":1,"state":"starting"}`), ok(`{"id":"rev_1","number":1,"state":"ready","ready":true}`))
	l := a.loop(long)
	serving := map[string]any{"engine": "command"}
	require.NoError(t, l.Deploy(t.Context(), "chat", ModelVersion{ModelID: "mdl_1", Version: 3}, serving))
	require.NoError(t, l.AwaitReady(t.Context()))
	require.True(t, l.Revision.Ready)
	require.NoError(t, l.Revise(t.Context(), ModelVersion{ModelID: "mdl_1", Version: 4}, nil))
	require.Equal(t, Revision{ID: "rev_2", Number: 2, State: "pending"}, l.Revision, "nothing of the last one stays")
	all := a.requests()
	require.Equal(t, map[string]any{"source": map[string]any{"model_id": "mdl_1", "version": 3.0}, "serving": map[string]any{"engine": "command"}}, all[1].body)
	require.Equal(t, map[string]any{"source": map[string]any{"model_id": "mdl_1", "version": 4.0}}, all[len(all)-1].body)
}

func TestARevisionThatFails(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.says("GET /api/model-deployments/dep_1/revisions/1",
		ok(`{"number":1,"state":"failed","ready":false,"reason":{"phase":"start","code":"engine_exit","message":"ended with 3","log_excerpt":"no such tensor"}}`))
	err := a.loop(long).AwaitReady(t.Context())
	require.ErrorContains(t, err, "start/engine_exit: ended with 3\nno such tensor")
	bare := newAPI(t)
	bare.says("GET /api/model-deployments/dep_1/revisions/1", ok(`{"number":1,"state":"failed","reason":null}`))
	require.ErrorContains(t, bare.loop(long).AwaitReady(t.Context()), "the revision failed")
	stuck := newAPI(t)
	stuck.says("GET /api/model-deployments/dep_1/revisions/1", ok(`{"number":1,"state":"starting"}`))
	err = late(t, stuck, 2, func(l *Loop) error { return l.AwaitReady(t.Context()) })
	require.ErrorIs(t, err, ErrImpatient)
	require.ErrorContains(t, err, "it is starting")
}

func TestPromoteTooEarlyWantsAConflict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer answer
		want   string
	}{
		"conflict": {answer{status: 409, body: `{"detail":"not ready"}`}, ""},
		"success":  {ok(`{}`), "want 409, got <nil>"},
		"absent":   {answer{status: 404, body: `{"detail":"no such revision"}`}, "want 409, got 404: no such revision"},
	} {
		a := newAPI(t)
		a.says("POST /api/model-deployments/dep_1/revisions/1/promote", tc.answer)
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
	a.says("POST /api/model-deployments/dep_1/revisions/1/promote", answer{status: 503}, ok(`{"id":"dep_1","promoted_revision":1}`))
	a.says("POST /api/model-deployments/dep_1/revisions/2/stop", ok(`{}`), answer{status: 409, body: `{"detail":"it is promoted"}`})
	l := a.loop(long)
	require.NoError(t, l.Promote(t.Context()))
	require.Equal(t, 1, *l.Deployment.Promoted)
	require.NoError(t, l.StopRevision(t.Context(), Revision{Number: 2}))
	require.ErrorContains(t, l.StopRevision(t.Context(), Revision{Number: 2}), "stop revision 2: 409: it is promoted")
}

// tokens is a registry of deployment tokens that keeps its promise on Idempotency-Key: the secret is told
// once. The answers numbered in lost are made and cut; revocations are refused for as long as away says.
func (a *api) tokens(away int, lost ...int) (live func() []string) {
	var mu sync.Mutex
	made, kept := map[string]string{}, map[string]bool{}
	answers := 0
	a.mux.HandleFunc("POST /api/model-deployments/dep_1/tokens", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		answers++
		id, again := made[r.Header.Get("Idempotency-Key")]
		text := "null"
		if !again {
			id = fmt.Sprintf("tok_%d", len(made)+1)
			made[r.Header.Get("Idempotency-Key")], kept[id] = id, true
			text = `"dtk_` + id + `"`
		}
		if slices.Contains(lost, answers) {
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
		"answered":                         {0, nil, "tok_1"},
		"its answer is lost":               {0, []int{1}, "tok_2"},
		"lost, and the repeat of it too":   {0, []int{1, 2}, "tok_2"},
		"lost, and the next one's as well": {0, []int{1, 3}, "tok_3"},
		"lost, and revoking takes a while": {2, []int{1}, "tok_2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			live := a.tokens(tc.away, tc.lost...)
			l := a.loop(long)
			require.NoError(t, l.MakeToken(t.Context(), "demo"))
			require.Equal(t, tc.want, l.TokenID)
			require.Equal(t, "dtk_"+tc.want, l.Token.Reveal())
			require.Equal(t, []string{tc.want}, live(), "a token that nobody knows does not live on")
			for _, one := range a.requests() {
				require.True(t, one.body == nil || one.body["name"] == "demo")
			}
		})
	}
}

func TestATokenThatIsLostAgainAndAgainIsGivenUp(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	live := a.tokens(0, 1, 3, 5, 7, 9)
	l := a.loop(long)
	l.Token, l.TokenID = secret.New("dtk_before"), "tok_before"
	require.ErrorContains(t, l.MakeToken(t.Context(), "demo"), "lost 5 times")
	require.Empty(t, live())
	require.Equal(t, "tok_before", l.TokenID, "the one that is known stays")
	require.Equal(t, "dtk_before", l.Token.Reveal())
}

func TestATokenThatIsRefusedIsTold(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.says("POST /api/model-deployments/dep_1/tokens", answer{status: 404, body: `{"detail":"no such deployment"}`})
	require.ErrorContains(t, a.loop(long).MakeToken(t.Context(), "demo"), "make a token: 404: no such deployment")
	held := newAPI(t)
	held.says("POST /api/model-deployments/dep_1/tokens", ok(`{"id":"tok_1","token":null}`))
	held.says("DELETE /api/model-deployments/dep_1/tokens/tok_1", answer{status: 403, body: `{"detail":"not yours"}`})
	require.ErrorContains(t, held.loop(long).MakeToken(t.Context(), "demo"), "revoke a token whose answer was lost: 403: not yours")
}

func TestChatsCarryTheDeploymentTokenAlone(t *testing.T) {
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

func TestChatWaitsForAnEngineThatIsAway(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.says("POST /inference/dep_1/v1/chat/completions", answer{status: 503}, answer{status: 502}, ok(`{"choices":[{"message":{"content":"73"}}]}`))
	got, err := a.loop(long).Chat(t.Context(), "27+46?")
	require.NoError(t, err)
	require.Equal(t, "73", got)
	refused := newAPI(t)
	refused.says("POST /inference/dep_1/v1/chat/completions", answer{status: 401, body: `{"detail":"revoked"}`})
	_, err = refused.loop(long).Chat(t.Context(), "27+46?")
	require.ErrorContains(t, err, "revoked")
}

func TestAwaitTraffic(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	row, err := json.Marshal(Call{RequestID: "req_1", Status: 200, Outcome: "ok", TokenName: "demo", RevisionNumber: 1})
	require.NoError(t, err)
	one := string(row)
	a.says("GET /api/model-deployments/dep_1/traffic", ok(`[]`), ok("["+one+"]"), ok("["+one+","+one+"]"))
	calls, err := a.loop(long).AwaitTraffic(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Equal(t, "demo", calls[0].TokenName)
	err = late(t, a, len(a.requests())+2, func(l *Loop) error {
		var err error
		calls, err = l.AwaitTraffic(t.Context(), 3)
		return err
	})
	require.ErrorIs(t, err, ErrImpatient)
	require.ErrorContains(t, err, "it shows 2")
	require.Len(t, calls, 2)
}
