package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// attempt describes one request by what is wrong with it.
type attempt struct {
	draining, over, large   bool
	bearer, target, upgrade string
	path                    string
}

func (a attempt) String() string {
	return fmt.Sprintf("draining=%t over=%t large=%t bearer=%q target=%q path=%q upgrade=%q", a.draining, a.over, a.large, a.bearer, a.target, a.path, a.upgrade)
}

// expectedRefusal returns the result of the first check that refuses a request, in the fixed order of the checks. If
// every check passes, it returns the error of an unreachable engine.
func expectedRefusal(a attempt) (status int, code string) {
	for _, check := range []struct {
		refuses bool
		status  int
		code    string
	}{
		{a.path == "elsewhere", 404, "not_found"}, // not the path of an inference call
		{a.draining, 503, "draining"},
		{a.over, 503, "lease_over"},
		{a.bearer != "own" && a.bearer != "another's", 401, "token_invalid"},
		{a.target == "unknown" || a.target == "malformed", 404, ""},
		{a.bearer == "another's", 403, "token_of_another_deployment"},
		{a.target == "suspended", 503, "deployment_suspended"},
		{a.target == "bare" || a.target == "unready", 503, "no_ready_revision"},
		{a.path == "evil", 400, "bad_path"},
		{a.upgrade == "websocket", 400, "bad_upgrade"}, // because the request is a POST
		{a.large, 413, "body_too_large"},
	} {
		if check.refuses {
			return check.status, check.code
		}
	}
	return 502, "engine_unreachable" // the engine's port is closed
}

// allAttempts returns all combinations of what can be wrong with a request.
func allAttempts() []attempt {
	var all []attempt
	both := []bool{false, true}
	for _, draining := range both {
		for _, over := range both {
			for _, large := range both {
				for _, bearer := range []string{"none", "malformed", "of a run", "never issued", "another's", "own"} {
					for _, target := range []string{"ready", "unknown", "malformed", "suspended", "bare", "unready"} {
						for _, path := range []string{"fine", "evil", "elsewhere"} {
							for _, upgrade := range []string{"", "websocket", "h2c"} {
								all = append(all, attempt{draining, over, large, bearer, target, upgrade, path})
							}
						}
					}
				}
			}
		}
	}
	return all
}

// orderHarness is a harness with a deployment in each state, and a token of each deployment.
type orderHarness struct {
	*harness
	ids    map[string]string
	tokens map[string]string
}

func newOrderHarness(t *testing.T) *orderHarness {
	t.Helper()
	w := &orderHarness{
		ids: map[string]string{
			"ready": dep("a"), "unknown": dep("z"), "malformed": "dep_short", "suspended": dep("s"), "bare": dep("b"), "unready": dep("c"), "other": dep("d"),
		},
		tokens: map[string]string{"none": "", "malformed": "nonsense", "of a run": mint(t, secret.KindIngest).text, "never issued": mint(t, secret.KindDeployment).text},
	}
	var all []*registrypeerv1.ServedDeployment
	for state, letter := range map[string]string{"ready": "a", "suspended": "s", "bare": "b", "unready": "c", "other": "d"} {
		own := mint(t, secret.KindDeployment)
		d := served(letter, own, closedPort(t))
		switch state {
		case "suspended":
			d.Suspended, d.Promoted = true, nil
		case "bare":
			d.Promoted = nil
		case "unready":
			d.Promoted.Ready, d.Promoted.Reason = false, "starting/port_timeout"
		}
		w.tokens["own "+state] = own.text
		all = append(all, d)
	}
	// Missing deployments have no token of their own. Use the token of an existing deployment.
	w.tokens["own unknown"], w.tokens["own malformed"] = w.tokens["own ready"], w.tokens["own ready"]
	w.harness = newHarness(t, all...)
	return w
}

func (w *orderHarness) request(a attempt) *http.Request {
	path := map[string]string{"fine": "/v1/chat/completions", "evil": "/v1/%2e%2e/metrics", "elsewhere": "/v2/models"}[a.path]
	req := httptest.NewRequest(http.MethodPost, "/inference/"+w.ids[a.target]+path, nil)
	bearer := w.tokens[a.bearer]
	switch a.bearer {
	case "own":
		bearer = w.tokens["own "+a.target]
	case "another's":
		bearer = w.tokens["own other"]
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if a.large {
		req.ContentLength = maxBody + 1
	}
	if a.upgrade != "" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", a.upgrade)
	}
	return req
}

func TestFirstFailedCheckDecides(t *testing.T) {
	t.Parallel()
	w := newOrderHarness(t)
	steps := []struct{ draining, over bool }{{false, false}, {false, true}, {true, true}}
	tried := 0
	for _, step := range steps {
		if step.over {
			w.expire()
		}
		if step.draining {
			w.proxy.Drain()
		}
		for _, a := range allAttempts() {
			if a.draining != step.draining || a.over != step.over {
				continue
			}
			tried++
			w.expect(a)
		}
	}
	require.Equal(t, len(allAttempts())*3/4, tried, "three quarters of the attempts are tried here; TestDrainingCheckedBeforeLeaseAndBearer tests draining with a valid lease")
	require.True(t, w.idle())
}

func (w *orderHarness) expect(a attempt) {
	w.t.Helper()
	resp := w.handle(w.request(a))
	defer func() { _ = resp.Body.Close() }()
	var out struct {
		Detail string
		Code   string
		Error  struct {
			Message, Type string
			Code, Param   *string
		}
	}
	require.NoError(w.t, json.NewDecoder(resp.Body).Decode(&out), a)
	status, code := expectedRefusal(a)
	require.Equal(w.t, status, resp.StatusCode, a)
	require.Equal(w.t, code, out.Code, a)
	require.Equal(w.t, out.Detail, out.Error.Message, a)
	require.Equal(w.t, map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "invalid_request_error", 501: "server_error", 502: "server_error", 503: "service_unavailable",
	}[status], out.Error.Type, a)
	require.Equal(w.t, status == 401, resp.Header.Get("WWW-Authenticate") == "Bearer", a)
	require.Equal(w.t, code == "draining", resp.Header.Get("Connection") == "close", a)
	require.Equal(w.t, map[string]string{"draining": code, "lease_over": code}[code], resp.Header.Get(fault.HeaderRefused), a)
	require.Equal(w.t, code == "deployment_suspended", resp.Header.Get("X-Should-Retry") == "false", a)
	require.Equal(w.t, status == 503 && code != "deployment_suspended", resp.Header.Get("Retry-After") != "", a)
	require.Regexp(w.t, `^req_[0-9a-z]{26}$`, resp.Header.Get("X-Request-Id"), a)
}

func TestDrainingCheckedBeforeLeaseAndBearer(t *testing.T) {
	t.Parallel()
	w := newOrderHarness(t)
	w.proxy.Drain()
	for _, bearer := range []string{"none", "malformed", "another's", "own"} {
		w.expect(attempt{draining: true, bearer: bearer, target: "ready", path: "fine"})
	}
}

func TestRefusalsCountedNotRecorded(t *testing.T) {
	t.Parallel()
	w := newOrderHarness(t)
	want := map[string]int{}
	for _, a := range allAttempts() {
		status, code := expectedRefusal(a)
		if a.draining || a.over || status == 502 {
			continue
		}
		if code == "" {
			code = "absent" // errors without a code are counted by their kind
		}
		want[code]++
		_ = w.handle(w.request(a)).Body.Close()
	}
	require.Equal(t, want, w.recorder.refusals)
	require.Empty(t, w.recorder.calls)
}

// malformedIDs returns strings that are not valid deployment ids.
func malformedIDs() []string {
	upper := "DEP_0" + dep("a")[5:]
	return []string{
		"nonsense", "dep_", "dep_short", upper, dep("a") + "a", dep("a")[:29], "usr_0" + dep("a")[5:], "dep-0" + dep("a")[5:], "dep_8" + dep("a")[5:],
		"dep_0" + "iiiiiiiiiiiiiiiiiiiiiiiii", "...", "a;b", "a=b", "-", "null", "0", dep("a") + ";v=1", strings.Repeat("x", 200),
	}
}

func TestMalformedDeploymentIDIsUnknown(t *testing.T) {
	t.Parallel()
	w := newOrderHarness(t)
	for _, form := range malformedIDs() {
		for _, rest := range []string{"/v1/chat/completions", "/v1", "/v1/", "/v1/%2e%2e/x"} {
			for bearer, want := range map[string]int{"": 401, w.tokens["malformed"]: 401, w.tokens["of a run"]: 401, w.tokens["own ready"]: 404, w.tokens["own other"]: 404} {
				req := httptest.NewRequest(http.MethodPost, "/inference/"+form+rest, nil)
				if bearer != "" {
					req.Header.Set("Authorization", "Bearer "+bearer)
				}
				resp := w.handle(req)
				require.Equal(t, want, resp.StatusCode, "%s%s", form, rest)
				require.Empty(t, resp.Header.Get("Location"), "the response must not redirect")
				_ = resp.Body.Close()
			}
		}
	}
}

func TestOtherPathsRefused(t *testing.T) {
	t.Parallel()
	w := newOrderHarness(t)
	a := dep("a")
	for path, want := range map[string]int{
		"/inference": 404, "/inference/": 404, "/inference/" + a: 404, "/inference/" + a + "/": 404, "/inference/" + a + "/v2/models": 404,
		"/inference/" + a + "/V1/models": 404, "/inference/" + a + "/v1x": 404, "/inference/" + a + "/v10/models": 404, "/inference/" + a + "/metrics": 404,
		"/Inference/" + a + "/v1/models": 404, "/": 404, "/v1/models": 404, "/api/inference/" + a + "/v1/models": 404, "/inferences/" + a + "/v1/models": 404,
		"/inference/v1/" + a: 404, "/api/playground/sessions/s/targets/1/v1/models": 404,
		"/inference//": 400, "/inference//v1/models": 400, "/inference/" + a + "//v1/models": 400, "/inference/" + a + "/%76%31/models": 400,
		"/inference/" + a + "/v1%2fmodels": 400, "/inference/%64ep_0" + a[5:] + "/v1/models": 400, "/inference/" + a + "%20/v1/models": 400,
		"/inference/../v1/models": 400, "/inference/%2e%2e/v1/models": 400, "/inference/a%2Fb/v1/models": 400, "/%69nference/" + a + "/v1/models": 400,
	} {
		var bodies []string
		for _, bearer := range []string{"", w.tokens["own ready"], w.tokens["never issued"]} {
			req := httptest.NewRequest(http.MethodGet, "http://h"+path, nil)
			if bearer != "" {
				req.Header.Set("Authorization", "Bearer "+bearer)
			}
			rec := httptest.NewRecorder()
			w.proxy.ServeHTTP(rec, req)
			require.Equal(t, want, rec.Code, path)
			require.Contains(t, rec.Body.String(), map[int]string{400: `"code":"bad_path"`, 404: `"code":"not_found"`}[want], path)
			require.Contains(t, rec.Body.String(), `"error":{`, path)
			require.Empty(t, rec.Header().Get("Location"), path)
			bodies = append(bodies, rec.Body.String())
		}
		require.Equal(t, bodies[0], bodies[1], "%s: the response must not depend on the token", path)
		require.Equal(t, bodies[0], bodies[2], path)
	}
}
