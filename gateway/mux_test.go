package gateway

import (
	"net/http"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
)

// register returns a function that adds a GET handler for each pattern to a mux. The handler writes its pattern to a
// header.
func register(t *testing.T, patterns ...string) func(*runtime.ServeMux) error {
	t.Helper()
	return func(mux *runtime.ServeMux) error {
		for _, pattern := range patterns {
			require.NoError(t, mux.HandlePath(http.MethodGet, pattern, func(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
				w.Header().Set("X-Pattern", pattern)
			}))
		}
		return nil
	}
}

func routes(patterns ...string) []*router.Route {
	all := []*router.Route{{Route: route.Route{Method: http.MethodGet, Pattern: "/healthz", Kind: route.Raw}}}
	for _, pattern := range patterns {
		all = append(all, &router.Route{Route: route.Route{Method: http.MethodGet, Pattern: pattern, Kind: route.RPC}})
	}
	return all
}

func TestBindReturnsHandlerOfEachRoute(t *testing.T) {
	t.Parallel()
	patterns := []string{"/api/jobs/{job_id}", "/api/jobs/recent", "/api/jobs/{job_id}/logs", "/api/jobs"}
	table := routes(patterns...)
	bound, err := bind(table, register(t, patterns...))
	require.NoError(t, err)
	require.Len(t, bound, len(patterns), "a raw route has no generated handler")
	for _, rt := range table[1:] {
		w := recorded{}
		bound[rt](w, nil, nil)
		require.Equal(t, rt.Pattern, http.Header(w).Get("X-Pattern"))
	}
}

// recorded is a response writer that keeps only the header.
type recorded http.Header

func (r recorded) Header() http.Header         { return http.Header(r) }
func (r recorded) Write(p []byte) (int, error) { return len(p), nil }
func (r recorded) WriteHeader(int)             {}

func TestBindRejectsRouteOfAnotherHandler(t *testing.T) {
	t.Parallel()
	_, err := bind(routes("/api/jobs/recent"), register(t, "/api/jobs/{job_id}"))
	require.EqualError(t, err, `route GET /api/jobs/recent: its generated handler is that of "/api/jobs/{job_id}"`)
	_, err = bind(routes("/api/jobs"), register(t, "/api/jobs/{job_id}"))
	require.EqualError(t, err, `route GET /api/jobs: its generated handler is that of ""`)
	_, err = bind(routes("/api/jobs"), func(*runtime.ServeMux) error { return http.ErrAbortHandler })
	require.ErrorIs(t, err, http.ErrAbortHandler)
}
