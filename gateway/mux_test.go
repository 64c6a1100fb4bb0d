package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// untouched is a connection that fails the test if it is called.
type untouched struct{ t *testing.T }

func (u untouched) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	u.t.Errorf("called %s", method)
	return nil
}

func (u untouched) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	u.t.Errorf("called %s", method)
	return nil, nil
}

func TestMuxRouteMismatchCallsNoService(t *testing.T) {
	t.Parallel()
	conn := untouched{t}
	g, err := New(t.Context(), Config{}, Deps{
		Conns: Conns{Auth: conn, Jobs: conn, Ingest: conn, Registry: conn, Inference: conn}, Ingest: http.NotFoundHandler(), Inference: http.NotFoundHandler(),
		IDs: id.NewSource(clock.Real(), rand.Reader), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	for name, target := range map[string]string{"another route": "/api/fleets/flt_1", "no route": "/nope"} {
		req := httptest.NewRequest(http.MethodGet, target, nil)
		checked := &router.Match{Route: &router.Route{Route: route.Route{Pattern: "/api/auth/config", Credential: "none"}}}
		rec := httptest.NewRecorder()
		g.mux.ServeHTTP(rec, req.WithContext(middleware.WithCall(req.Context(), &middleware.Call{Match: checked})))
		require.Equal(t, http.StatusInternalServerError, rec.Code, name)
		require.JSONEq(t, `{"detail":"Internal Server Error"}`, rec.Body.String(), name)
	}
}
