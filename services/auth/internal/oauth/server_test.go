package oauth

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
)

func TestAuthority_Revoke(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(pair) string{
		"refresh": func(p pair) string { return p.refresh }, "access": func(p pair) string { return p.access },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			first, bystander := h.tokens(exchangeForm(h.code())), h.tokens(exchangeForm(h.code()))
			p := h.tokens(refreshForm(first.refresh))
			status, word := h.revoke(form{"client_id": otherID, "token": pick(p)})
			require.Equal(t, 400, status)
			require.Equal(t, wordGrant, word)
			require.True(t, h.tokenValid(p.access), "another client cannot revoke the token")
			for range 2 {
				status, _ = h.revoke(form{"client_id": clientID, "token": pick(p), "token_type_hint": "nonsense"})
				require.Equal(t, 200, status)
				require.False(t, h.tokenValid(first.access))
				require.False(t, h.tokenValid(p.access))
			}
			require.Equal(t, wordGrant, h.refused(refreshForm(p.refresh)))
			require.True(t, h.tokenValid(bystander.access))
			require.Equal(t, "logout", h.text(`SELECT revoked_reason FROM session WHERE revoked_at IS NOT NULL`))
		})
	}
}

func TestAuthority_Revoke_usedRefreshToken(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.tokens(exchangeForm(h.code()))
	second := h.tokens(refreshForm(first.refresh))
	status, _ := h.revoke(form{"client_id": clientID, "token": first.refresh})
	require.Equal(t, 200, status)
	require.False(t, h.tokenValid(second.access))
}

func TestAuthority_Revoke_unknownTokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	unknown, err := secret.Mint(h.Rand, secret.KindRefresh)
	require.NoError(t, err)
	p := h.tokens(exchangeForm(h.code()))
	for name, c := range map[string]struct {
		form   form
		status int
		word   string
	}{
		"unknown":   {form{"client_id": clientID, "token": unknown.Reveal()}, 200, ""},
		"rubbish":   {form{"client_id": clientID, "token": "rubbish"}, 200, ""},
		"forged":    {form{"client_id": clientID, "token": p.access[:len(p.access)-4] + "AAAA"}, 200, ""},
		"no token":  {form{"client_id": clientID}, 400, wordRequest},
		"no client": {form{"token": p.refresh}, 400, wordClient},
	} {
		status, word := h.revoke(c.form)
		require.Equal(t, c.status, status, name)
		require.Equal(t, c.word, word, name)
	}
	require.True(t, h.tokenValid(p.access))
}

func TestPeerServer_deviceFlow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ask := func(f form) (int, map[string]any) {
		out, err := h.peer.AuthorizeDevice(t.Context(), &authpeerv1.AuthorizeDeviceRequest{Form: f, ClientAddress: here})
		require.NoError(t, err)
		body := map[string]any{}
		require.NoError(t, json.Unmarshal(out.GetBody(), &body))
		return int(out.GetStatus()), body
	}
	status, body := ask(form{"client_id": "signalbox-cli"})
	require.Equal(t, 200, status)
	require.Equal(t, map[string]any{
		"device_code": "dvc", "user_code": "WDJB-MJHT", "expires_in": 900.0, "interval": 5.0,
		"verification_uri": public + "/device", "verification_uri_complete": public + "/device?user_code=WDJB-MJHT",
	}, body)
	require.Equal(t, []device.Start{{ClientID: "signalbox-cli", ClientName: "Signalbox CLI", Address: here}}, h.flows.began)
	for want, f := range map[string]form{
		wordClient: {}, wordUnauthorized: {"client_id": clientID}, wordScope: {"client_id": "signalbox-cli", "scope": "read"},
	} {
		status, body = ask(f)
		require.Equal(t, 400, status)
		require.Equal(t, want, body["error"])
	}
	require.Len(t, h.flows.began, 1)

	poll := form{"grant_type": grantDevice, "client_id": "signalbox-cli", "device_code": "dvc"}
	status, body = h.issue(poll)
	require.Equal(t, 200, status)
	require.Equal(t, map[string]any{"access_token": "api", "token_type": "Bearer", "expires_in": 8 * 3600.0}, body)
	require.Equal(t, []device.Poll{{Code: secret.New("dvc"), ClientID: "signalbox-cli", Address: here}}, h.flows.polled)
	require.Equal(t, wordRequest, h.refused(with(poll, form{"device_code": ""})))
	require.Equal(t, wordUnauthorized, h.refused(with(poll, form{"client_id": clientID})))
}

func TestPeerServer_IssueToken_deviceErrors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	poll := &authpeerv1.IssueTokenRequest{Form: form{"grant_type": grantDevice, "client_id": "signalbox-cli", "device_code": "dvc"}}
	h.flows.err = fault.New(fault.Refused, "", "authorization_pending").WithOAuth("authorization_pending")
	out, err := h.peer.IssueToken(t.Context(), poll)
	require.NoError(t, err)
	require.EqualValues(t, 400, out.GetStatus())
	require.Zero(t, out.GetRetryAfterSeconds())
	require.JSONEq(t, `{"error":"authorization_pending","error_description":"authorization_pending"}`, string(out.GetBody()))
	h.flows.err = fault.New(fault.Limited, "device_rate", "Too many").WithOAuth("slow_down").WithRetryAfter(1500 * time.Millisecond)
	out, err = h.peer.IssueToken(t.Context(), poll)
	require.NoError(t, err)
	require.EqualValues(t, 429, out.GetStatus())
	require.EqualValues(t, 2, out.GetRetryAfterSeconds())
	require.JSONEq(t, `{"error":"slow_down","error_description":"Too many"}`, string(out.GetBody()))
	h.flows.err = errors.New("broken")
	_, err = h.peer.IssueToken(t.Context(), poll)
	require.ErrorContains(t, err, "broken", "an error without a code of an RFC fails the call")
}

func TestPeerServer_GetMetadata(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	get := func(name string) (doc map[string]any) {
		out, err := h.peer.GetMetadata(t.Context(), &authpeerv1.GetMetadataRequest{Document: name})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out.GetBody(), &doc))
		return doc
	}
	server := get("authorization-server")
	require.Equal(t, public, server["issuer"])
	require.Equal(t, public+"/api/oauth/token", server["token_endpoint"])
	require.Equal(t, []any{"S256"}, server["code_challenge_methods_supported"])
	require.Equal(t, []any{"none"}, server["token_endpoint_auth_methods_supported"])
	require.Equal(t, []any{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"}, server["grant_types_supported"])
	require.Equal(t, true, server["authorization_response_iss_parameter_supported"])
	require.NotContains(t, server, "registration_endpoint", "an endpoint that is not served is not listed")
	require.Equal(t, resource, get("protected-resource")["resource"])
	require.Equal(t, []any{public}, get("protected-resource")["authorization_servers"])
	keys := get("jwks")["keys"].([]any)
	require.NotEmpty(t, keys)
	require.NotContains(t, keys[0], "d", "only public halves are published")
	_, err := h.peer.GetMetadata(t.Context(), &authpeerv1.GetMetadataRequest{Document: "other"})
	require.True(t, fault.Is(err, fault.Absent))
}

func TestServer_DecideAuthorization(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := &Server{Authority: h.Authority}
	in := &authv1.DecideAuthorizationRequest{
		ResponseType: "code", ClientId: clientID, RedirectUri: redirect, CodeChallenge: challenge(verifier), CodeChallengeMethod: "S256",
		Resource: resource, Approve: true,
	}
	_, err := s.DecideAuthorization(t.Context(), in)
	require.True(t, fault.Is(err, fault.Unauthenticated))
	ctx, _ := h.person()
	out, err := s.DecideAuthorization(ctx, in)
	require.NoError(t, err)
	require.Contains(t, out.GetRedirectTo(), redirect+"?code=acd_")
	require.Equal(t, "read", h.text(`SELECT scope FROM oauth_grant`))
	in.Approve = false
	out, err = s.DecideAuthorization(ctx, in)
	require.NoError(t, err)
	require.Contains(t, out.GetRedirectTo(), "error=access_denied")
}
