package maintenancetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// credential is one credential of an installation.
type credential struct {
	kind string
	// accepted uses the credential and reports whether it was accepted. It is called at most once after each restore,
	// because some credentials can be used only once.
	accepted func() bool
	revoke   func()
}

// restoreHarness is an installation whose database is restored.
type restoreHarness struct {
	*testenv.Installation
	host

	admin   string // an access token
	clients int
	job     string
	fleet   string
	deploy  string
}

const deploymentID = "dep_01kb4g0000000000000000dep1"

func newRestoreHarness(t *testing.T, kind string) *restoreHarness {
	t.Helper()
	h := &restoreHarness{Installation: testenv.Kinds()[kind](t, testenv.Options{Env: map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1", "SERVICE_GATEWAY_TRUSTED_PROXIES": "127.0.0.0/8",
	}})}
	h.host = &singleHost{h.Installation}
	if kind == "split" {
		h.host = &splitHost{h.Installation}
	}
	h.admin = signIn(t, h.Installation)
	h.job = waitingJob(t, h.Installation, h.admin)
	var fleet struct{ ID string }
	h.post(h.admin, "/api/fleets", map[string]any{"name": "spare", "kind": "agent", "pools": []string{"spare"}}, &fleet)
	h.fleet = fleet.ID
	h.plantDeployment()
	return h
}

// plantDeployment inserts a deployment. A real one would need a model and a running engine.
func (h *restoreHarness) plantDeployment() {
	h.T.Helper()
	conn := h.Connect(h.T.Context())
	_, err := conn.Exec(h.T.Context(), `INSERT INTO registry.deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at)
		SELECT $1, 'd', a.id, a.username, p.id, p.key, 'team', 'serving', now() FROM auth.account a, auth.project p LIMIT 1`, deploymentID)
	require.NoError(h.T, err)
	require.NoError(h.T, conn.Close(h.T.Context()))
	h.deploy = deploymentID
}

// send sends a request from a new client address.
func (h *restoreHarness) send(method, path string, body any, header ...string) response {
	h.T.Helper()
	h.clients++
	return h.sendFrom(fmt.Sprintf("198.18.%d.%d", h.clients/250, 1+h.clients%250), method, path, body, header...)
}

func (h *restoreHarness) sendFrom(address, method, path string, body any, header ...string) response {
	h.T.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(h.T, err)
	}
	req, err := http.NewRequestWithContext(h.T.Context(), method, h.URL+path, bytes.NewReader(raw))
	require.NoError(h.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", address)
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	out, err := perform(req)
	require.NoError(h.T, err)
	return out
}

// post sends a request that must succeed.
func (h *restoreHarness) post(token, path string, body, out any) {
	h.T.Helper()
	got := h.send(http.MethodPost, path, body, "Authorization", "Bearer "+token)
	require.Contains(h.T, []int{http.StatusOK, http.StatusCreated}, got.status, "%s: %s", path, got.body)
	got.into(h.T, out)
}

func (h *restoreHarness) delete(path string) {
	h.T.Helper()
	got := h.send(http.MethodDelete, path, nil, "Authorization", "Bearer "+h.admin)
	require.Contains(h.T, []int{http.StatusOK, http.StatusNoContent}, got.status, "%s: %s", path, got.body)
}

// session signs in as admin, and returns the access token and the refresh cookie.
func (h *restoreHarness) session() (token, cookie string) {
	h.T.Helper()
	got := h.send(http.MethodPost, "/api/auth/login", map[string]string{"username": "admin", "password": h.Password.Reveal()})
	require.Equal(h.T, http.StatusOK, got.status, got.body)
	var in struct{ Token string }
	got.into(h.T, &in)
	for _, c := range (&http.Response{Header: got.header}).Cookies() {
		if c.Name == "service_refresh" {
			return in.Token, c.Value
		}
	}
	require.FailNow(h.T, "the sign-in set no refresh cookie")
	return "", ""
}

func (h *restoreHarness) refreshes(cookie string) bool {
	h.T.Helper()
	return h.send(http.MethodPost, "/api/auth/refresh", nil, "Cookie", "service_refresh="+cookie).status == http.StatusOK
}

// create returns a new credential of each kind, except a signing key.
func (h *restoreHarness) create(n int) []credential {
	return []credential{h.access(), h.refresh(), h.device(n), h.join(), h.share(), h.user(n), h.deployment(n)}
}

// access returns a session as a credential. The session's refresh cookie shows whether the session is valid.
func (h *restoreHarness) access() credential {
	token, cookie := h.session()
	return credential{"access", func() bool { return h.refreshes(cookie) }, func() {
		got := h.send(http.MethodPost, "/api/auth/logout", nil, "Authorization", "Bearer "+token, "Cookie", "service_refresh="+cookie)
		require.Less(h.T, got.status, 300, got.body)
	}}
}

func (h *restoreHarness) refresh() credential {
	_, cookie := h.session()
	return credential{"refresh", func() bool { return h.refreshes(cookie) }, func() { require.True(h.T, h.refreshes(cookie)) }}
}

func (h *restoreHarness) device(n int) credential {
	address := fmt.Sprintf("198.19.%d.%d", n/250, 1+n%250)
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	got := h.sendFrom(address, http.MethodPost, "/api/cli/device/code", map[string]any{})
	require.Equal(h.T, http.StatusOK, got.status, got.body)
	got.into(h.T, &flow)
	h.post(h.admin, "/api/cli/device/requests/"+flow.UserCode, map[string]any{"decision": "approve"}, &struct{}{})
	use := func() bool {
		return h.sendFrom(address, http.MethodPost, "/api/cli/device/token", map[string]any{"device_code": flow.DeviceCode}).status == http.StatusOK
	}
	return credential{"device code", use, func() { require.True(h.T, use()) }}
}

func (h *restoreHarness) join() credential {
	var made struct{ ID, Token string }
	at := "/api/fleets/" + h.fleet + "/join-tokens"
	h.post(h.admin, at, map[string]any{}, &made)
	use := func() bool {
		request, err := fixtures.CertificateRequest()
		require.NoError(h.T, err)
		got := h.send(http.MethodPost, "/api/fleets/join", map[string]any{
			"token": made.Token, "hostname": "ghost", "inventory": map[string]any{}, "certificate_request": request,
		})
		return got.status < 300
	}
	return credential{"join token", use, func() { h.delete(at + "/" + made.ID) }}
}

func (h *restoreHarness) share() credential {
	var made struct{ ID, Token string }
	h.post(h.admin, "/api/shares", map[string]any{"kind": "job", "target_ids": []string{h.job}}, &made)
	use := func() bool { return h.send(http.MethodGet, "/api/share/"+made.Token, nil).status == http.StatusOK }
	return credential{"share", use, func() { h.delete("/api/shares/" + made.ID) }}
}

func (h *restoreHarness) user(n int) credential {
	var made struct {
		User     struct{ ID string }
		Password string
	}
	name := fmt.Sprint("user", n)
	h.post(h.admin, "/api/admin/users", map[string]any{"username": name, "role": "operator"}, &made)
	use := func() bool {
		return h.send(http.MethodPost, "/api/auth/login", map[string]string{"username": name, "password": made.Password}).status == http.StatusOK
	}
	return credential{"user", use, func() {
		got := h.send(http.MethodPatch, "/api/admin/users/"+made.User.ID, map[string]any{"disabled": true}, "Authorization", "Bearer "+h.admin)
		require.Equal(h.T, http.StatusOK, got.status, got.body)
	}}
}

func (h *restoreHarness) deployment(n int) credential {
	var made struct{ ID, Token string }
	at := "/api/model-deployments/" + h.deploy + "/tokens"
	h.post(h.admin, at, map[string]any{"name": fmt.Sprint("token ", n)}, &made)
	use := func() bool {
		var a response
		h.Until(h.T.Context(), "inference decides about the token", func() bool {
			a = h.send(http.MethodGet, "/inference/"+h.deploy+"/v1/models", nil, "Authorization", "Bearer "+made.Token)
			return a.status == http.StatusUnauthorized || strings.Contains(a.body, "no_ready_revision")
		})
		return a.status != http.StatusUnauthorized
	}
	return credential{"deployment token", use, func() { h.delete(at + "/" + made.ID) }}
}

// signingKey returns the key that signs access tokens now. An access token shows whether the key is accepted.
func (h *restoreHarness) signingKey() credential {
	token, _ := h.session()
	use := func() bool {
		return h.send(http.MethodGet, "/api/auth/me", nil, "Authorization", "Bearer "+token).status == http.StatusOK
	}
	return credential{"signing key", use, func() {
		h.post(h.admin, "/api/admin/keys/rotate", map[string]any{"purpose": "access", "revoke": true}, &[]any{})
	}}
}
