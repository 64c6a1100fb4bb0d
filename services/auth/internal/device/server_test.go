package device

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// headers records the headers that a handler sets.
type headers struct {
	grpc.ServerTransportStream

	md metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.md = metadata.Join(h.md, md)
	return nil
}

// device returns the context of a device's request.
func (h *harness) device() (context.Context, *headers) {
	sent := &headers{}
	ctx := authn.NewContext(h.t.Context(), &authn.Caller{Kind: authn.KindNone, ClientAddr: here})
	return grpc.NewContextWithServerTransportStream(ctx, sent), sent
}

func (h *harness) server() *Server {
	return &Server{Flow: h.Flow, PublicURL: func() string { return "https://signalbox.example" }}
}

func TestServer_deviceFlow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.server()
	ctx, sent := h.device()
	code, err := s.CreateDeviceCode(ctx, &authv1.CreateDeviceCodeRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"200"}, sent.md.Get("x-service-status"))
	require.Regexp(t, `^dvc_[0-9A-Za-z]{49}$`, code.GetDeviceCode())
	require.Regexp(t, `^[B-Z]{4}-[B-Z]{4}$`, code.GetUserCode())
	require.Equal(t, "https://signalbox.example/device", code.GetVerificationUri())
	require.Equal(t, "https://signalbox.example/device?user_code="+code.GetUserCode(), code.GetVerificationUriComplete())
	require.EqualValues(t, 900, code.GetExpiresIn())
	require.EqualValues(t, 5, code.GetInterval())

	poll := &authv1.PollDeviceTokenRequest{DeviceCode: code.GetDeviceCode()}
	_, err = s.PollDeviceToken(ctx, poll)
	require.Equal(t, `{"detail":"authorization_pending","error":"authorization_pending"}`, string(fault.Render(err, "").Body))
	require.Equal(t, 400, fault.Render(err, "").Status)

	get := &authv1.GetDeviceRequestRequest{UserCode: code.GetUserCode()}
	before := h.rows()
	shown, err := s.GetDeviceRequest(h.as("usr_1"), get)
	require.NoError(t, err)
	require.Equal(t, before, h.rows(), "GET changes nothing")
	require.Equal(t, []string{"Signalbox CLI", here, "pending"}, []string{shown.GetClientName(), shown.GetClientAddress(), shown.GetState()})
	decided, err := s.DecideDeviceRequest(h.as("usr_1"), &authv1.DecideDeviceRequestRequest{
		UserCode: code.GetUserCode(), Decision: authv1.DeviceDecision_DEVICE_DECISION_APPROVE,
	})
	require.NoError(t, err)
	require.Equal(t, "approved", decided.GetState())
	token, err := s.PollDeviceToken(ctx, poll)
	require.NoError(t, err)
	require.Equal(t, []string{"access", "Bearer"}, []string{token.GetAccessToken(), token.GetTokenType()})
	require.EqualValues(t, 8*3600, token.GetExpiresIn())
}

func TestServer_DecideDeviceRequest_deny(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	r, err := h.server().DecideDeviceRequest(h.as("usr_1"), &authv1.DecideDeviceRequestRequest{
		UserCode: c.User, Decision: authv1.DeviceDecision_DEVICE_DECISION_DENY,
	})
	require.NoError(t, err)
	require.Equal(t, "denied", r.GetState())
}

func TestServer_DecideDeviceRequest_unauthenticated(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	_, err := h.server().GetDeviceRequest(t.Context(), &authv1.GetDeviceRequestRequest{UserCode: c.User})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	_, err = h.server().DecideDeviceRequest(t.Context(), &authv1.DecideDeviceRequestRequest{UserCode: c.User, Decision: 1})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	require.Equal(t, wordPending, h.pollCode(c))
}

func TestServer_CreateDeviceCode_clientNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, ok := range map[string]bool{
		"Anna's laptop": true, " notebook ": true, "ноутбук": true,
		"": false, "   ": false, "a\nb": false, "a\x00b": false, "safe\u202egnp.exe": false, "zero\u200bwidth": false, "\u2028": false,
		"\u3164": false, "an\u115fa": false, "\u2800": false, // letters and a symbol without a visible form
	} {
		ctx, _ := h.device()
		_, err := h.server().CreateDeviceCode(ctx, &authv1.CreateDeviceCodeRequest{ClientName: &name})
		require.Equal(t, ok, err == nil, "%q: %v", name, err)
		require.Equal(t, !ok, fault.Is(err, fault.Invalid), "%q", name)
	}
}
