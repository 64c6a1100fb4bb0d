package boot

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// members is a fake auth service. It has the RPC with which other services fetch roles, and the method that auth
// itself uses.
type members struct {
	*keys
	authpeerv1.UnimplementedAccountPeerServiceServer
}

func (m *members) Register(r grpc.ServiceRegistrar) {
	m.keys.Register(r)
	authpeerv1.RegisterAccountPeerServiceServer(r, m)
}

func (m *members) ListProjectRoles(_ context.Context, in *authpeerv1.ListProjectRolesRequest) (*authpeerv1.ListProjectRolesResponse, error) {
	if in.GetAccountId() == "usr_down" {
		return nil, fault.New(fault.Unavailable, "", "database is unavailable")
	}
	return &authpeerv1.ListProjectRolesResponse{Roles: []*authpeerv1.ProjectRole{{ProjectId: "prj_1", Role: in.GetAccountId()}}}, nil
}

func (m *members) ProjectRoles(_ context.Context, accountID string) ([]authn.ProjectRole, error) {
	return []authn.ProjectRole{{Project: "prj_own", Role: accountID}}, nil
}

func TestEnv_roles(t *testing.T) {
	t.Parallel()
	e, bus, closers := env(t)
	svc := &members{keys: newKeys(t)}
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	workers, err := e.Serve(svc, svc.published, l)
	require.NoError(t, err)
	stop := startWorkers(t, workers, patience)

	own, err := e.roles(svc)(t.Context(), "viewer")
	require.NoError(t, err)
	require.Equal(t, []authn.ProjectRole{{Project: "prj_own", Role: "viewer"}}, own)

	jobs := NewEnv("jobs", e.Obs, e.Clock, e.IDs, bus.As("jobs"))
	require.Nil(t, jobs.roles(svc.keys), "without a connection to auth there is no role lookup")
	_, err = jobs.Dial(closers, "auth")
	require.NoError(t, err)
	fetched, err := jobs.roles(svc.keys)(t.Context(), "editor")
	require.NoError(t, err)
	require.Equal(t, []authn.ProjectRole{{Project: "prj_1", Role: "editor"}}, fetched)
	_, err = jobs.roles(svc.keys)(t.Context(), "usr_down")
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.NoError(t, stop())
}

func (k *keys) published(context.Context) ([]authn.PublicKey, error) {
	return []authn.PublicKey{k.key.Public()}, nil
}
