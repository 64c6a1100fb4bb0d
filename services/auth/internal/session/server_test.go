package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

func TestServer_Login_offWithProvider(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := &Server{Sessions: h.Sessions, Methods: Methods{OIDC: &Provider{Issuer: "https://id.example", Name: "Example"}, DeviceFlow: true}}
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindNone, ClientAddr: "192.0.2.7"})
	_, err := s.Login(ctx, &authv1.LoginRequest{Username: "ann", Password: "right"})
	require.True(t, fault.Is(err, fault.Unconfigured), "%v", err)
	require.Contains(t, fault.From(err).Text(), "Example")
	require.Empty(t, h.hashes.checked, "no password is checked")
	require.Zero(t, h.count("session"))
	cfg, err := s.GetConfig(ctx, &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"oidc"}, cfg.GetMethods())
	require.Equal(t, []string{"https://id.example", "Example"}, []string{cfg.GetOidc().GetIssuer(), cfg.GetOidc().GetName()})
	require.True(t, cfg.GetDeviceFlow())
}

func TestServer_GetConfig_withoutProvider(t *testing.T) {
	t.Parallel()
	s := &Server{Sessions: newHarness(t).Sessions}
	cfg, err := s.GetConfig(t.Context(), &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"password"}, cfg.GetMethods())
	require.Nil(t, cfg.GetOidc())
	require.False(t, cfg.GetDeviceFlow())
}

// unavailableQuota fails every call with the error in its field.
type unavailableQuota struct {
	jobspeerv1.QuotaPeerServiceClient

	err error
}

func (q unavailableQuota) GetAccountQuota(context.Context, *jobspeerv1.GetAccountQuotaRequest, ...grpc.CallOption) (*jobspeerv1.AccountQuota, error) {
	return nil, q.err
}

func TestServer_GetMe_jobsUnavailable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c, err := h.authenticate(h.login().Access)
	require.NoError(t, err)
	s := &Server{Accounts: account.NewLoader(h.Pool), Quota: unavailableQuota{err: fault.New(fault.Unavailable, "", "jobs is down")}}
	me, err := s.GetMe(authn.NewContext(t.Context(), c), &authv1.GetMeRequest{})
	require.NoError(t, err)
	require.Equal(t, "ann", me.GetUsername())
	require.Nil(t, me.GetQuota())
	s.Quota = unavailableQuota{err: fault.New(fault.Internal, "", "a defect")}
	_, err = s.GetMe(authn.NewContext(t.Context(), c), &authv1.GetMeRequest{})
	require.Error(t, err, "other errors are not hidden")
}
