package inference_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/inference"
)

func TestCallRecord(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "application/json", okJSON))))
	r.ready(w.deployments()...)
	body := `{"model":"default","messages":[]}`
	resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat+"?q=secret", w.good.text, body)
	require.Equal(t, okJSON, text(t, resp))
	got := r.rows(1)[0]
	require.NotNil(t, got.TTFT)
	got.TTFT = nil
	requested, used, stop, seven, three := "default", "tiny", "stop", int32(7), int32(3)
	require.Equal(t, row{
		RequestID: resp.Header.Get("X-Request-Id"), Outcome: "ok", Method: "POST", Path: chat, Token: "good", Usage: "engine",
		Status: 200, RequestedModel: &requested, ResponseModel: &used, Finish: &stop, Prompt: &seven, Completion: &three,
		In: int64(len(body)), Out: int64(len(okJSON)),
	}, got)
}

func TestRecordOfUnusableBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, answer string }{
		"not JSON":        {"hello", "world"},
		"list":            {`[1]`, `[1]`},
		"other types":     {`{"model":5,"stream":"yes"}`, `{"model":5,"usage":"much"}`},
		"too many tokens": {`{}`, `{"usage":{"prompt_tokens":99999999999}}`},
		"fractions":       {`{}`, `{"usage":{"prompt_tokens":1.5}}`},
		"not complete":    {`{"model":"m"`, `{"model":"x","pad":"` + strings.Repeat("x", 1<<20) + `","usage":{"prompt_tokens":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "application/json", c.answer))))
			r.ready(w.deployments()...)
			require.Equal(t, c.answer, text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, c.body)))
			got := r.rows(1)[0]
			require.Equal(t, "none", got.Usage)
			require.Nil(t, got.RequestedModel)
			require.Nil(t, got.ResponseModel)
			require.Nil(t, got.Prompt)
		})
	}
}

func TestRecordStripsInvalidCharacters(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", `{"model":"t\u0000i\ud800ny"}`))))
	r.ready(w.deployments()...)
	_ = text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"model":"a\u0000b`+strings.Repeat("ü", 200)+`"}`))
	got := r.rows(1)[0]
	require.Equal(t, "ti\ufffdny", *got.ResponseModel)
	require.Equal(t, "ab"+strings.Repeat("ü", 125)+"…", *got.RequestedModel)
}

// sendMany sends n calls from 8 goroutines and returns their request ids. n must be a multiple of 8.
func (r *harness) sendMany(n int, bearer string) map[string]bool {
	r.t.Helper()
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, bearer, "{}")
				_ = text(r.t, resp)
				mu.Lock()
				ids[resp.Header.Get("X-Request-Id")] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(r.t, ids, n)
	return ids
}

// requireRecordedOnce requires that the calls with these ids are recorded, each once, and no others.
func (r *harness) requireRecordedOnce(ids map[string]bool) {
	r.t.Helper()
	for _, got := range r.rows(len(ids)) {
		require.True(r.t, ids[got.RequestID], "call %s was not sent by the test, or is recorded twice", got.RequestID)
		delete(ids, got.RequestID)
	}
	require.Empty(r.t, ids)
}

func TestCallsRecordedOnceWhileDatabaseHangs(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	r.ready(w.deployments()...)
	ids := r.sendMany(40, w.good.text)
	owner := r.db.OwnerPool(inference.Name)
	tx, err := owner.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE call IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	for range 3 {
		for name := range r.sendMany(80, w.good.text) {
			ids[name] = true
		}
	}
	require.Eventually(t, func() bool { return len(r.segments()) > 0 }, limit, 10*time.Millisecond, "calls must be written to disk")
	for name := range r.sendMany(80, w.good.text) {
		ids[name] = true
	}
	require.NoError(t, tx.Rollback(t.Context()))
	r.requireRecordedOnce(ids)
	require.Eventually(t, func() bool { return len(r.segments()) == 0 }, limit, 10*time.Millisecond, "segments must be replayed and removed")
}

// segments returns the paths of the segments in the spool.
func (r *harness) segments() []string {
	found, err := filepath.Glob(filepath.Join(r.cfg.Spool, "*.jsonl"))
	require.NoError(r.t, err)
	return found
}

func TestCallsRecordedOnceAcrossStop(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	r.ready(w.deployments()...)
	ids := r.sendMany(200, w.good.text)
	r.stop() // stores the calls that are still in memory
	r.requireRecordedOnce(ids)
	require.Empty(t, r.segments())
}

func TestCallsRecordedOnceAcrossRestartWithoutDatabase(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	r.stop()
	closedPool := r.db.Pool(inference.Name)
	closedPool.Close()
	r.start(closedPool)
	r.ready(w.deployments()...)
	ids := r.sendMany(200, w.good.text)
	r.stop()
	require.NotEmpty(t, r.segments())
	require.Empty(t, r.now())
	for _, name := range r.segments() {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	r.start(r.pool)
	r.requireRecordedOnce(ids)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := defaults(t)
	require.NoError(t, good.Validate())
	for name, change := range map[string]func(*inference.Config){
		"connect": func(c *inference.Config) { c.Connect = 0 }, "first byte": func(c *inference.Config) { c.FirstByte = -1 },
		"long first byte": func(c *inference.Config) { c.FirstByte = time.Hour + 1 }, "long pause": func(c *inference.Config) { c.EngineIdle = time.Hour + 1 },
		"no pause": func(c *inference.Config) { c.EngineIdle = 0 },
		"idle":     func(c *inference.Config) { c.Idle = 0 }, "no body": func(c *inference.Config) { c.MaxBodyMB = 0 },
		"huge body": func(c *inference.Config) { c.MaxBodyMB = 1025 },
	} {
		cfg := good
		change(&cfg)
		require.Error(t, cfg.Validate(), name)
	}
	_, err := inference.New(t.Context(), inference.Config{}, inference.Deps{})
	require.ErrorContains(t, err, "SERVICE_INFERENCE_SPOOL")
	_, err = inference.New(t.Context(), inference.Config{Spool: "/dev/null/x"}, inference.Deps{})
	require.Error(t, err)
}

// reader is a client of TrafficService, with the identity of the gateway.
type reader struct {
	*harness

	client inferencev1.TrafficServiceClient
	signer *authn.Signer
}

func (r *harness) reader() *reader {
	r.t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(r.t, err)
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	signer := authn.NewSigner(clk, func() string { return ids.New(id.Session) }, func() authn.SigningKey { return key })
	r.serve(inference.Name, func(s *rpc.Server) { r.svc.Register(s) }, key.Public())
	conn, err := r.bus.As("gateway").Dial(inference.Name)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return &reader{harness: r, client: inferencev1.NewTrafficServiceClient(conn), signer: signer}
}

func user(name, role string, projects ...authn.ProjectRole) *authn.Caller {
	return &authn.Caller{Kind: authn.KindUser, Subject: name, Username: name, Role: role, Projects: projects}
}

// list calls ListTraffic as a user. The result more is true if the response states that more calls follow.
func (r *reader) list(c *authn.Caller, in *inferencev1.ListTrafficRequest) (calls []*inferencev1.Call, more bool, err error) {
	r.t.Helper()
	signed, _, err := r.signer.Sign(c)
	require.NoError(r.t, err)
	var header metadata.MD
	out, err := r.client.ListTraffic(authn.WithToken(r.t.Context(), signed, time.Now().Add(time.Minute)), in, grpc.Header(&header))
	return out.GetCalls(), len(header.Get("x-service-more")) > 0, err
}

func TestListTrafficVisibility(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	mine := served(deploymentA, list(w.good), w.e)
	mine.Visibility = "project"
	r.ready(mine)
	_ = r.sendMany(8, w.good.text)
	_ = r.rows(8)
	api := r.reader()
	in := &inferencev1.ListTrafficRequest{DeploymentId: deploymentA}
	for name, c := range map[string]struct {
		caller *authn.Caller
		sees   bool
	}{
		"owner":                   {user("usr_1", authn.RoleOperator), true},
		"admin":                   {user("usr_9", authn.RoleAdmin), true},
		"member of the project":   {user("usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_1", Role: authn.ProjectViewer}), true},
		"member of other project": {user("usr_3", authn.RoleOperator, authn.ProjectRole{Project: "prj_2", Role: authn.ProjectOwner}), false},
		"stranger":                {user("usr_4", authn.RoleOperator), false},
	} {
		calls, _, err := api.list(c.caller, in)
		if !c.sees {
			require.True(t, fault.Is(err, fault.Absent), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, calls, 8, name)
	}
	mine.Visibility = "all"
	r.registry.await(t, r.registry.push(mine))
	calls, _, err := api.list(user("usr_4", authn.RoleOperator), in)
	require.NoError(t, err)
	require.Len(t, calls, 8)
	hidden := &inferencev1.ListTrafficRequest{DeploymentId: dep("z")}
	_, _, err = api.list(user("usr_1", authn.RoleOperator), hidden)
	require.True(t, fault.Is(err, fault.Absent))
	require.Equal(t, "no such deployment: "+hidden.GetDeploymentId(), fault.From(err).Text())
}

func TestListTraffic_deletedDeployment(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	mine := served(deploymentA, list(w.good), w.e)
	mine.Visibility = "project"
	r.ready(mine)
	sent := r.sendMany(8, w.good.text)
	_ = r.rows(8)
	r.registry.await(t, r.registry.push())
	api := r.reader()
	calls, _, err := api.list(user("usr_1", authn.RoleOperator), &inferencev1.ListTrafficRequest{DeploymentId: deploymentA})
	require.NoError(t, err, "the owner must still be able to read the traffic")
	require.Len(t, calls, len(sent))
	_, _, err = api.list(user("usr_4", authn.RoleOperator), &inferencev1.ListTrafficRequest{DeploymentId: deploymentA})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestListTrafficPages(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "application/json", okJSON))))
	second := newToken(t, "second")
	r.ready(served(deploymentA, list(w.good, second), w.e))
	_ = r.sendMany(16, w.good.text)
	_ = r.sendMany(8, second.text)
	_ = r.rows(24)
	api, me := r.reader(), user("usr_1", authn.RoleOperator)
	page := func(limit, offset int32, token string) ([]*inferencev1.Call, bool) {
		in := &inferencev1.ListTrafficRequest{DeploymentId: deploymentA, Limit: &limit, Offset: &offset}
		if token != "" {
			in.Token = &token
		}
		calls, more, err := api.list(me, in)
		require.NoError(t, err)
		return calls, more
	}
	var all []*inferencev1.Call
	for offset := int32(0); ; offset += 10 {
		calls, more := page(10, offset, "")
		all = append(all, calls...)
		require.Equal(t, offset < 20, more)
		if !more {
			break
		}
	}
	require.Len(t, all, 24)
	seen := map[string]bool{}
	for i, c := range all {
		require.False(t, seen[c.GetRequestId()], "each call must be listed once")
		seen[c.GetRequestId()] = true
		if i == 0 {
			continue
		}
		before := all[i-1]
		key := func(c *inferencev1.Call) string {
			return c.GetAt().AsTime().Format("2006-01-02T15:04:05.000000") + c.GetRequestId()
		}
		require.Greater(t, key(before), key(c), "calls must be sorted newest first, then by id")
	}
	calls, more := page(8, 0, "tok_second")
	require.Len(t, calls, 8)
	require.False(t, more, "a page that is exactly full must not announce another one")
	for _, c := range calls {
		require.Equal(t, "second", c.GetTokenName())
		require.Equal(t, "rev_1", c.GetRevisionId())
		require.Equal(t, int32(7), c.GetPromptTokens())
	}
	calls, _ = page(8, 0, "tok_unknown")
	require.Empty(t, calls)
}

func TestListTrafficInvalidRequests(t *testing.T) {
	t.Parallel()
	r := open(t)
	api, me := r.reader(), user("usr_1", authn.RoleOperator)
	for _, wrong := range []string{"x", "dep_", "dep_short", "job_" + strings.Repeat("a", 26), "dep_0" + strings.Repeat("A", 25)} {
		_, _, err := api.list(me, &inferencev1.ListTrafficRequest{DeploymentId: wrong})
		f := fault.From(err)
		require.Equal(t, fault.Invalid, f.Kind, wrong)
		require.Len(t, f.Fields, 1)
		require.Equal(t, "deployment_id", fmt.Sprint(f.Fields[0].Loc[0]))
		require.Equal(t, "String should be an id: dep_ and 26 characters", f.Fields[0].Msg)
	}
	for _, limit := range []int32{0, -1, 501} {
		_, _, err := api.list(me, &inferencev1.ListTrafficRequest{DeploymentId: deploymentA, Limit: &limit})
		require.True(t, fault.Is(err, fault.Invalid), "a limit of %d must be refused: %v", limit, err)
	}
	_, err := api.client.ListTraffic(context.WithoutCancel(t.Context()), &inferencev1.ListTrafficRequest{DeploymentId: deploymentA})
	require.Error(t, err, "requests without a caller must be refused")
}
