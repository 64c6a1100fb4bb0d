package inference_test

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// refusal is the body of an error response of the proxy.
type refusal struct {
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Error  struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
		Param   *string `json:"param"`
	} `json:"error"`
}

func refused(t *testing.T, resp reply, status int, code string) refusal {
	t.Helper()
	var out refusal
	body := text(t, resp)
	require.Equal(t, status, resp.StatusCode, body)
	require.NoError(t, json.Unmarshal([]byte(body), &out), body)
	require.Equal(t, code, out.Code, body)
	require.NotEmpty(t, out.Detail)
	require.Equal(t, out.Detail, out.Error.Message)
	require.NotEmpty(t, out.Error.Type)
	require.Nil(t, out.Error.Param)
	require.Contains(t, body, `"param":null`)
	require.Regexp(t, `^req_[0-9a-z]{26}$`, resp.Header.Get("X-Request-Id"))
	require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	return out
}

// deploymentStates has a deployment in each state that the checks distinguish, and a token of each deployment.
type deploymentStates struct {
	good, other, suspended, bare, unready token
	e                                     *engine
}

func (w *deploymentStates) deployments() []*registrypeerv1.ServedDeployment {
	a := served(deploymentA, list(w.good), w.e)
	b := served(deploymentB, list(w.other), w.e)
	suspended := served(dep("s"), list(w.suspended))
	suspended.Id, suspended.Suspended, suspended.Promoted = dep("s"), true, nil
	bare := served(dep("n"), list(w.bare))
	bare.Promoted = nil
	unready := served(dep("u"), list(w.unready), w.e)
	unready.Promoted.Ready, unready.Promoted.Reason = false, "probing/port_timeout"
	return []*registrypeerv1.ServedDeployment{a, b, suspended, bare, unready}
}

func newDeploymentStates(t *testing.T, e *engine) *deploymentStates {
	t.Helper()
	return &deploymentStates{
		good: newToken(t, "good"), other: newToken(t, "other"), suspended: newToken(t, "suspended"),
		bare: newToken(t, "bare"), unready: newToken(t, "unready"), e: e,
	}
}

func TestCheckOrder(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "application/json", okJSON)))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	never := newToken(t, "never").text
	ingest, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t, err)
	unknown := dep("z")
	big := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		path, bearer, body string
		status             int
		code               string
	}{
		"path before bearer":                {"/inference/" + deploymentA + "/v2/models", "", "", 404, "not_found"},
		"bearer before unknown deployment":  {"/inference/" + unknown + chat, "", "", 401, "token_invalid"},
		"malformed token":                   {"/inference/" + deploymentA + chat, "nonsense", "", 401, "token_invalid"},
		"login token":                       {"/inference/" + deploymentA + chat, "eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "", 401, "token_invalid"},
		"ingest token":                      {"/inference/" + deploymentA + chat, ingest.Reveal(), "", 401, "token_invalid"},
		"unknown token":                     {"/inference/" + deploymentA + chat, never, "", 401, "token_invalid"},
		"unknown token and deployment":      {"/inference/" + unknown + chat, never, "", 401, "token_invalid"},
		"unknown before other deployment":   {"/inference/" + unknown + chat, w.good.text, "", 404, ""},
		"token of another deployment":       {"/inference/" + deploymentB + chat, w.good.text, "", 403, "token_of_another_deployment"},
		"other deployment before suspended": {"/inference/" + dep("s") + chat, w.good.text, "", 403, "token_of_another_deployment"},
		"suspended before no revision":      {"/inference/" + dep("s") + chat, w.suspended.text, "", 503, "deployment_suspended"},
		"nothing promoted":                  {"/inference/" + dep("n") + chat, w.bare.text, "", 503, "no_ready_revision"},
		"not ready before too large":        {"/inference/" + dep("u") + chat, w.unready.text, big, 503, "no_ready_revision"},
		"too large":                         {"/inference/" + deploymentA + chat, w.good.text, big, 413, "body_too_large"},
		"hostile path with valid token":     {"/inference/" + deploymentA + "/v1/%2e%2e/metrics", w.good.text, "", 400, "bad_path"},
		"bearer before hostile path":        {"/inference/" + deploymentA + "/v1/%2e%2e/metrics", "", "", 401, "token_invalid"},
		"suspended before hostile path":     {"/inference/" + dep("s") + "/v1/a%5cb", w.suspended.text, "", 503, "deployment_suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			method := http.MethodGet
			if c.body != "" {
				method = http.MethodPost
			}
			resp := r.do(method, c.path, c.bearer, c.body)
			refused(t, resp, c.status, c.code)
			require.Equal(t, c.status == 401, resp.Header.Get("WWW-Authenticate") == "Bearer")
			require.Equal(t, c.code == "deployment_suspended", resp.Header.Get("X-Should-Retry") == "false")
			require.Equal(t, c.code == "no_ready_revision", resp.Header.Get("Retry-After") == "10")
		})
	}
	require.Empty(t, e.seen(), "refused calls must not reach an engine")
	resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"model":"m"}`)
	require.Equal(t, okJSON, text(t, resp))
	require.Len(t, r.rows(1), 1, "refused calls must not be recorded")
}

func TestNotReadyReasonInDetail(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("")))
	r.ready(w.deployments()...)
	out := refused(t, r.do(http.MethodGet, "/inference/"+dep("u")+chat, w.unready.text, ""), 503, "no_ready_revision")
	require.Equal(t, "revision 1 is not ready: probing/port_timeout", out.Detail)
}

func TestBearerHeader(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "fine")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	good := w.good.text
	for name, headers := range map[string]http.Header{
		"two headers":       {"Authorization": {"Bearer " + good, "Bearer " + good}},
		"basic":             {"Authorization": {"Basic " + good}},
		"without scheme":    {"Authorization": {good}},
		"trailing words":    {"Authorization": {"Bearer " + good + " more"}},
		"other header":      {"X-Api-Key": {good}, "Api-Key": {good}},
		"cookie":            {"Cookie": {"token=" + good}},
		"other case":        {"Authorization": {"Bearer " + strings.ToUpper(good)}},
		"character missing": {"Authorization": {"Bearer " + good[:len(good)-1]}},
		"character changed": {"Authorization": {"Bearer " + good[:len(good)-1] + flip(good[len(good)-1])}},
	} {
		req := r.request(http.MethodGet, "/inference/"+deploymentA+"/v1/models?token="+good, "", "")
		req.Header = headers
		resp := r.send(req)
		require.Equal(t, 401, resp.StatusCode, name)
		_ = text(t, resp)
	}
	require.Empty(t, e.seen())
	req := r.request(http.MethodGet, "/inference/"+deploymentA+"/v1/models", "", "")
	req.Header.Set("Authorization", "bEARER "+good)
	require.Equal(t, "fine", text(t, r.send(req)), "the scheme must not be case-sensitive")
}

func flip(b byte) string {
	if b == 'A' {
		return "B"
	}
	return "A"
}

func TestDrainingCheckedFirst(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("")))
	r.ready(w.deployments()...)
	r.svc.Drain()
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+chat, "", "")
	refused(t, resp, 503, "draining")
	require.True(t, resp.Close, "the connection must be closed")
}

func TestDrainLetsOpenCallsFinish(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	_, in := r.stream(w.good.text)
	s.words <- "before"
	require.Equal(t, "before", event(t, in))
	r.svc.Drain()
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 503, "draining")
	s.words <- "after"
	require.Equal(t, "after", event(t, in))
	close(s.words)
	_, err := in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the stream must end cleanly")
	require.Equal(t, "ok", r.rows(1)[0].Outcome)
}

func TestCallsRefusedBeforeFirstSnapshot(t *testing.T) {
	t.Parallel()
	r := open(t)
	require.NoError(t, r.svc.Ready(t.Context()))
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+chat, newToken(t, "x").text, "")
	refused(t, resp, 503, "lease_over")
}

func TestChunkedBodyLimit(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "read it all")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	post := func(size int64) reply {
		req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
		req.Body = io.NopCloser(io.LimitReader(endless{}, size))
		req.ContentLength = -1
		return r.send(req)
	}
	require.Equal(t, "read it all", text(t, post(2<<20)), "a body of exactly the maximum size must be accepted")
	refused(t, post(2<<20+1), 413, "body_too_large")
	refused(t, post(40<<20), 413, "body_too_large")
	got := r.rows(1)
	require.Equal(t, int64(2<<20), got[0].In, "the record must count the bytes of a chunked body")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// An absence of the database must not take replicas out of service that can serve. One without a lease cannot.
func TestService_Serves(t *testing.T) {
	t.Parallel()
	r := open(t)
	require.ErrorContains(t, r.svc.Serves(t.Context()), "has not been checked")
	require.NoError(t, r.svc.Ready(t.Context()))
	require.ErrorContains(t, r.svc.Serves(t.Context()), "no valid lease")
	e := newEngine(t, always(httpResponse("200 OK", "", "ok")))
	r.ready(newDeploymentStates(t, e).deployments()...)
	require.NoError(t, r.svc.Serves(t.Context()))
	r.pool.Close()
	require.NoError(t, r.svc.Serves(t.Context()), "the database is away")
	require.NoError(t, r.svc.Ready(t.Context()), "the schema is checked once")
}
