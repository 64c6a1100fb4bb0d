package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth"
)

const (
	base    = "http://127.0.0.1" // the public URL of the harness
	program = "https://client.example/metadata"
)

// deviceClients holds clients of the device flow and of the authorization server, connected as the gateway is.
type deviceClients struct {
	*harness

	devices authv1.DeviceServiceClient
	oauth   authv1.OAuthServiceClient
	forms   authpeerv1.OAuthPeerServiceClient
	me      context.Context // signed in as the admin
	anon    context.Context // not signed in
}

func newDeviceClients(t *testing.T) *deviceClients {
	t.Helper()
	h := open(t)
	conn, err := h.bus.As("gateway").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	d := &deviceClients{
		harness: h, devices: authv1.NewDeviceServiceClient(conn), oauth: authv1.NewOAuthServiceClient(conn), forms: authpeerv1.NewOAuthPeerServiceClient(conn),
	}
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	d.me, err = h.as(token)
	require.NoError(t, err)
	d.anon, err = h.as("")
	require.NoError(t, err)
	return d
}

// post sends a token request form and returns the response.
func (d *deviceClients) post(form map[string]string) (status int, body map[string]any) {
	d.t.Helper()
	out, err := d.forms.IssueToken(d.anon, &authpeerv1.IssueTokenRequest{Form: form, ClientAddress: "192.0.2.7"})
	require.NoError(d.t, err)
	require.NoError(d.t, json.Unmarshal(out.GetBody(), &body))
	return int(out.GetStatus()), body
}

func (d *deviceClients) approve(userCode string) {
	d.t.Helper()
	_, err := d.devices.DecideDeviceRequest(d.me, &authv1.DecideDeviceRequestRequest{
		UserCode: userCode, Decision: authv1.DeviceDecision_DEVICE_DECISION_APPROVE,
	})
	require.NoError(d.t, err)
}

func TestDeviceFlow_signsIn(t *testing.T) {
	t.Parallel()
	d := newDeviceClients(t)
	name := "laptop"
	code, err := d.devices.CreateDeviceCode(d.anon, &authv1.CreateDeviceCodeRequest{ClientName: &name})
	require.NoError(t, err)
	require.Equal(t, base+"/device?user_code="+code.GetUserCode(), code.GetVerificationUriComplete())
	poll := &authv1.PollDeviceTokenRequest{DeviceCode: code.GetDeviceCode()}
	_, err = d.devices.PollDeviceToken(d.anon, poll)
	require.JSONEq(t, `{"detail":"authorization_pending","error":"authorization_pending"}`, string(fault.Render(err, "").Body))
	d.approve(code.GetUserCode())
	token, err := d.devices.PollDeviceToken(d.anon, poll)
	require.NoError(t, err)
	require.EqualValues(t, 8*3600, token.GetExpiresIn())
	ctx, err := d.as(token.GetAccessToken())
	require.NoError(t, err)
	me, err := d.public.GetMe(ctx, &authv1.GetMeRequest{})
	require.NoError(t, err)
	require.Equal(t, "admin", me.GetUsername())
	var method, client, address string
	row := d.db.Pool(auth.Name).QueryRow(t.Context(), `SELECT method, client_name, client_address FROM session ORDER BY created_at DESC, id DESC LIMIT 1`)
	require.NoError(t, row.Scan(&method, &client, &address))
	require.Equal(t, []string{"device", "laptop", "192.0.2.7"}, []string{method, client, address})
	var refreshes int
	require.NoError(t, d.db.Pool(auth.Name).QueryRow(t.Context(), `SELECT count(*) FROM refresh_token`).Scan(&refreshes))
	require.Equal(t, 1, refreshes, "only the admin's browser session has a refresh token")
}

func TestDeviceFlow_jsonAndFormShareState(t *testing.T) {
	t.Parallel()
	d := newDeviceClients(t)
	out, err := d.forms.AuthorizeDevice(d.anon, &authpeerv1.AuthorizeDeviceRequest{
		Form: map[string]string{"client_id": "signalbox-cli"}, ClientAddress: "192.0.2.7",
	})
	require.NoError(t, err)
	var code struct {
		Device string `json:"device_code"`
		User   string `json:"user_code"`
	}
	require.NoError(t, json.Unmarshal(out.GetBody(), &code))
	poll := map[string]string{
		"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": "signalbox-cli", "device_code": code.Device,
	}
	status, body := d.post(poll)
	require.Equal(t, 400, status)
	require.Equal(t, "authorization_pending", body["error"])
	_, err = d.devices.PollDeviceToken(d.anon, &authv1.PollDeviceTokenRequest{DeviceCode: code.Device})
	require.Equal(t, "slow_down", fault.From(err).OAuth, "both APIs share the poll interval")
	d.approve(code.User)
	status, body = d.post(poll)
	require.Equal(t, 200, status)
	_, err = d.as(body["access_token"].(string))
	require.NoError(t, err, "the API accepts the token")
	_, err = d.devices.PollDeviceToken(d.anon, &authv1.PollDeviceTokenRequest{DeviceCode: code.Device})
	require.Equal(t, "invalid_grant", fault.From(err).OAuth)
}

func TestOAuthToken_rejectedByAPI(t *testing.T) {
	t.Parallel()
	d := newDeviceClients(t)
	require.NoError(t, service(t, d.db, d.clock).RegisterClient(t.Context(), program, "Client", []string{"http://127.0.0.1/cb"}))
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	decision, err := d.oauth.DecideAuthorization(d.me, &authv1.DecideAuthorizationRequest{
		ResponseType: "code", ClientId: program, RedirectUri: "http://127.0.0.1:5000/cb", Resource: base + "/api/mcp", Approve: true,
		CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:]), CodeChallengeMethod: "S256",
	})
	require.NoError(t, err)
	to, err := url.Parse(decision.GetRedirectTo())
	require.NoError(t, err)
	form := map[string]string{
		"grant_type": "authorization_code", "client_id": program, "code": to.Query().Get("code"), "code_verifier": verifier,
		"redirect_uri": "http://127.0.0.1:5000/cb", "resource": base + "/api/mcp",
	}
	status, body := d.post(form)
	require.Equal(t, 200, status, "%v", body)
	access := body["access_token"].(string)
	_, err = d.as(access)
	require.True(t, fault.Is(err, fault.Unauthenticated))
	_, _, err = d.refresh(body["refresh_token"].(string))
	require.True(t, fault.Is(err, fault.Unauthenticated))
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(access, ".")[1])
	require.NoError(t, err)
	var payload map[string]any
	require.NoError(t, json.Unmarshal(claims, &payload))
	require.Equal(t, []any{base, base + "/api/mcp", program, "read"}, []any{payload["iss"], payload["aud"], payload["client_id"], payload["scope"]})
	require.EqualValues(t, d.clock.Now().Add(time.Hour).Unix(), payload["exp"])
	revoked, err := d.forms.RevokeToken(d.anon, &authpeerv1.RevokeTokenRequest{Form: map[string]string{"client_id": program, "token": access}})
	require.NoError(t, err)
	require.EqualValues(t, 200, revoked.GetStatus())
	status, body = d.post(map[string]string{"grant_type": "refresh_token", "client_id": program, "refresh_token": body["refresh_token"].(string)})
	require.Equal(t, 400, status)
	require.Equal(t, "invalid_grant", body["error"])
}

func TestOAuthForms_gatewayOnly(t *testing.T) {
	t.Parallel()
	d := newDeviceClients(t)
	conn, err := d.bus.As("jobs").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = authpeerv1.NewOAuthPeerServiceClient(conn).GetMetadata(t.Context(), &authpeerv1.GetMetadataRequest{Document: "jwks"})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = d.devices.GetDeviceRequest(d.anon, &authv1.GetDeviceRequestRequest{UserCode: "BBBB-BBBB"})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
}
