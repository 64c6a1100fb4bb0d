package rpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// try calls a unary or a streaming method and returns its text and error.
func try(ctx context.Context, cc grpc.ClientConnInterface, name string) (string, error) {
	if name != "PeerStream" && name != "UserStream" && name != "AgentStream" {
		out, err := invoke(ctx, cc, name, ping())
		return textOf(out), err
	}
	s, err := openStream(ctx, cc, name)
	if err != nil {
		return "", err
	}
	// EOF means that the server has already rejected the call; RecvMsg returns the reason.
	if err := s.SendMsg(ping()); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if err := s.CloseSend(); err != nil {
		return "", err
	}
	out := ping()
	if err = s.RecvMsg(out); err == nil {
		if end := s.RecvMsg(ping()); !errors.Is(end, io.EOF) { // grpc requires reading a stream until EOF
			err = end
		}
	}
	return textOf(out), err
}

func TestServer_access(t *testing.T) {
	t.Parallel()
	const yes = fault.Kind("")
	ingest := &authn.Caller{Kind: authn.KindIngest, Subject: "run_1", RunID: "run_1"}
	deployment := &authn.Caller{Kind: authn.KindDeployment, Subject: "dep_1", DeploymentID: "dep_1"}
	anonymous := &authn.Caller{Kind: authn.KindNone}
	drawn := person("admin")
	drawn.PasswordDrawn = true
	callers := []*authn.Caller{nil, anonymous, person("operator"), person("admin"), ingest, deployment, drawn}
	u, f := fault.Unauthenticated, fault.Forbidden
	// For each method: the result of a call by the gateway on behalf of each caller above.
	want := map[string][7]fault.Kind{
		"Open":       {u, yes, yes, yes, yes, yes, yes},
		"User":       {u, u, yes, yes, u, u, f},
		"UserStream": {u, u, yes, yes, u, u, f},
		"Admin":      {u, u, f, yes, u, u, f},
		"First":      {u, u, yes, yes, u, u, yes},
		"Ingest":     {u, u, u, u, yes, u, u},
		"Deployment": {u, u, u, u, u, yes, u},
		"Peer":       {yes, yes, yes, yes, yes, yes, yes},
		"PeerOnce":   {yes, yes, yes, yes, yes, yes, yes},
		"PeerStream": {yes, yes, yes, yes, yes, yes, yes},
		"Agent":      {f, f, f, f, f, f, f},
	}
	want["AgentStream"] = want["Agent"]
	require.Len(t, want, len(methods()))
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			gateway := w.dial(t, "gateway", "registry")
			for name, kinds := range want {
				for i, caller := range callers {
					ctx := t.Context()
					if caller != nil {
						ctx = w.calledBy(t, caller)
					}
					_, err := try(ctx, gateway, name)
					if kinds[i] == yes {
						require.NoError(t, err, "%s as %v", name, caller)
						continue
					}
					require.True(t, fault.Is(err, kinds[i]), "%s as %v: %v", name, caller, err)
				}
			}
		})
	}
}

func TestServer_access_unlistedServiceIsRejected(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			ingest := w.dial(t, "ingest", "registry")
			for _, m := range methods() {
				name := m.GetName()
				_, err := try(w.calledBy(t, person("admin")), ingest, name)
				require.Equal(t, codes.PermissionDenied, status.Code(err), name)
				require.True(t, fault.HasCode(err, rpc.CodePeerRefused), name)
			}
		})
	}
}

// The token of a caller passes through the services that a call involves and is valid for a minute. These services
// must not be able to use the token to call methods for users. Only the gateway may call such methods.
func TestServer_access_callerTokenWorksForGatewayOnly(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			for _, service := range []string{"jobs", "auth", "ingest", "registry"} {
				conn := w.dial(t, service, "registry")
				for _, name := range []string{"Open", "User", "UserStream", "Admin", "First", "Ingest", "Deployment"} {
					for _, ctx := range []context.Context{t.Context(), w.calledBy(t, person("admin"))} {
						_, err := try(ctx, conn, name)
						require.Equal(t, codes.PermissionDenied, status.Code(err), "%s as %s", name, service)
						require.True(t, fault.HasCode(err, rpc.CodePeerRefused), "%s as %s: %v", name, service, err)
					}
				}
			}
		})
	}
}

func TestServer_handlerSeesCaller(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			for _, c := range []struct {
				ctx              context.Context
				from, name, want string
			}{
				{w.calledBy(t, person("operator")), "gateway", "User", "gateway|user|usr_1"},
				{w.calledBy(t, person("operator")), "jobs", "Peer", "jobs|user|usr_1"},
				{t.Context(), "jobs", "Peer", "jobs|service|jobs"},
				{w.calledBy(t, &authn.Caller{Kind: authn.KindNone}), "gateway", "Open", "gateway|none|"},
			} {
				got, err := try(c.ctx, w.dial(t, c.from, "registry"), c.name)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestServer_agentListener(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "jobs", handlers: echo(), agents: true})
			node := w.dial(t, "node/nod_1", "jobs")
			got, err := try(t.Context(), node, "Agent")
			require.NoError(t, err)
			require.Equal(t, "node/nod_1|agent|nod_1", got)
			_, err = try(t.Context(), node, "AgentStream")
			require.NoError(t, err)
			for _, m := range methods() {
				if m.GetName() == "Agent" || m.GetName() == "AgentStream" {
					continue
				}
				_, err := try(w.calledBy(t, person("admin")), node, m.GetName())
				require.True(t, fault.Is(err, fault.Forbidden), m.GetName())
			}
			_, err = healthv1.NewHealthClient(node).Check(t.Context(), &healthv1.HealthCheckRequest{})
			require.True(t, fault.Is(err, fault.Forbidden))
		})
	}
}

func TestServer_ignoresTokenFromAgent(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "jobs", handlers: echo(), agents: true})
			got, err := try(w.calledBy(t, person("admin")), w.dial(t, "node/nod_1", "jobs"), "Agent")
			require.NoError(t, err)
			require.Equal(t, "node/nod_1|agent|nod_1", got)
		})
	}
}

func TestClient_callerFromMetadataIsNotForwarded(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			gateway := w.dial(t, "gateway", "registry")
			token, _, err := w.signer.Sign(person("admin"))
			require.NoError(t, err)

			passed := metadata.AppendToOutgoingContext(t.Context(), authn.MetadataCaller, token)
			_, err = try(passed, gateway, "Admin")
			require.True(t, fault.Is(err, fault.Unauthenticated), "only the verified caller of the context is forwarded")

			both := metadata.AppendToOutgoingContext(w.calledBy(t, person("operator")), authn.MetadataCaller, token)
			got, err := try(both, gateway, "User")
			require.NoError(t, err)
			require.Equal(t, "gateway|user|usr_1", got)
		})
	}
}

func TestServer_malformedTokenIsRejected(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			gateway := w.dial(t, "gateway", "registry")
			for _, name := range []string{"Open", "User", "Peer", "PeerStream"} {
				ctx := authn.WithToken(t.Context(), "not.a.token", w.clk.Now().AddDate(1, 0, 0))
				_, err := try(ctx, gateway, name)
				require.True(t, fault.HasCode(err, authn.CodeTokenInvalid), name)
			}
		})
	}
}

func TestServer_healthIsOpenToServices(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			for _, service := range []string{"", "registry"} {
				got, err := healthv1.NewHealthClient(w.dial(t, "ingest", "registry")).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
				require.NoError(t, err)
				require.Equal(t, healthv1.HealthCheckResponse_SERVING, got.GetStatus())
			}
		})
	}
}

func TestServer_reflectionIsOff(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			for _, m := range []string{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/signalbox.rpctest.v1.TestService/Nope"} {
				err := w.dial(t, "jobs", "registry").Invoke(t.Context(), m, ping(), ping())
				require.Equal(t, codes.Unimplemented, status.Code(err))
			}
		})
	}
}
