package rpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// If a caller has more roles than fit into a token, the server fetches them, and the handler sees all of them.
func TestServer_handlerSeesAllRolesOfCaller(t *testing.T) {
	t.Parallel()
	many := person("operator")
	for i := range authn.MaxProjects + 1 {
		many.Projects = append(many.Projects, authn.ProjectRole{Project: fmt.Sprintf("prj_%d", i), Role: authn.ProjectViewer})
	}
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			handler := &handlers{unary: func(ctx context.Context, _ string, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
				return pingText(fmt.Sprint(authn.CallerOf(ctx).Projects)), nil
			}}
			w.serve(t, setup{service: "registry", handlers: handler, change: func(o *rpc.ServerOptions) {
				o.Roles = func(ctx context.Context, userID string) ([]authn.ProjectRole, error) {
					if authn.Token(ctx, w.clk.Now()) != "" {
						t.Error("the call that fetches the roles must not carry the token")
					}
					if userID == "usr_down" {
						return nil, fault.New(fault.Unavailable, "", "auth is unavailable")
					}
					return []authn.ProjectRole{{Project: "prj_far", Role: authn.ProjectOwner}}, nil
				}
			}})
			gateway := w.dial(t, "gateway", "registry")
			for _, name := range []string{"User", "Peer"} {
				got, err := try(w.calledBy(t, many), gateway, name)
				require.NoError(t, err)
				require.Equal(t, "[{prj_far owner}]", got, name)
			}
			got, err := try(w.calledBy(t, person("operator")), gateway, "User")
			require.NoError(t, err)
			require.Equal(t, "[]", got, "roles are not fetched if the token is complete")
			down := *many
			down.Subject = "usr_down"
			_, err = try(w.calledBy(t, &down), gateway, "User")
			require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
		})
	}
}
