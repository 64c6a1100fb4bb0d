package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// forwarded runs Forward for a call whose service returns the given pairs as response metadata.
func forwarded(t *testing.T, service, target string, status int, pairs ...string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	at, err := url.Parse(target)
	require.NoError(t, err)
	call := &middleware.Call{URL: at, Match: &router.Match{Route: &router.Route{Route: route.Route{Service: service, RPC: "s/M", Status: status}}}}
	ctx := runtime.NewServerMetadataContext(middleware.WithCall(t.Context(), call), runtime.ServerMetadata{HeaderMD: metadata.Pairs(pairs...)})
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	return w, middleware.ResponseMetadata{Cookie: "__Host-refresh"}.Forward(ctx, w, &emptypb.Empty{})
}

func TestForwardAcceptsOnlySuccessStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"200", "201", "202", "204"} {
		w, err := forwarded(t, "jobs", "/api/jobs", 200, "x-service-status", status)
		require.NoError(t, err)
		require.Equal(t, status, strings.Fields(w.Result().Status)[0])
		require.Equal(t, status != "204", w.Header().Get("Content-Type") != "", "a 204 has no body and no Content-Type")
	}
	for _, status := range []string{"", "0", "100", "199", "203", "206", "301", "302", "307", "400", "404", "500", "999", "x", "2e2", " 200"} {
		_, err := forwarded(t, "jobs", "/api/jobs", 200, "x-service-status", status)
		require.ErrorContains(t, err, "x-service-status", "%q: only success statuses are allowed", status)
	}
	w, err := forwarded(t, "jobs", "/api/jobs", 201)
	require.NoError(t, err)
	require.Equal(t, 201, w.Code, "the default is the route's status")
}

func TestOnlyListedMetadataBecomesHeaders(t *testing.T) {
	t.Parallel()
	w, err := forwarded(t, "jobs", "/api/jobs", 200,
		"etag", `"v1"`, "etag", `"v2"`, "location", "/api/jobs/1", "cache-control", "no-store", "last-modified", "Sat, 21 Nov 2026 03:00:00 GMT",
		"x-service-impact", "sha256:ab", "set-cookie", "evil=1", "authorization", "Bearer x", "x-service-caller", "token", "grpc-status", "0",
		"content-type", "text/html", "access-control-allow-origin", "*", "x-service-refresh", "rft_x", "server", "x", "x-frame-options", "ALLOW")
	require.NoError(t, err)
	require.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "Etag": {`"v2"`}, "Location": {"/api/jobs/1"}, "Cache-Control": {"no-store"},
		"Last-Modified": {"Sat, 21 Nov 2026 03:00:00 GMT"}, "X-Service-Impact": {"sha256:ab"},
	}, w.Header())
}

func TestOnlyAuthSetsRefreshCookie(t *testing.T) {
	t.Parallel()
	const good = "__Host-refresh=rft_x; Path=/; Secure; HttpOnly; SameSite=Strict"
	for name, tc := range map[string]struct {
		service string
		lines   []string
		want    []string
	}{
		"auth":            {"auth", []string{good}, []string{good}},
		"another service": {"jobs", []string{good}, nil},
		"another cookie":  {"auth", []string{"session=x", "__Host-refresh2=x", "__host-refresh=x"}, nil},
		"among others":    {"auth", []string{"a=b", good}, []string{good}},
		"unparsable":      {"auth", []string{"", ";", "=x", "__Host-refresh"}, nil},
		"line break":      {"auth", []string{"a=b\r\nX: y"}, nil},
	} {
		var pairs []string
		for _, line := range tc.lines {
			pairs = append(pairs, "x-service-set-cookie", line)
		}
		w, err := forwarded(t, tc.service, "/api/auth/login", 200, pairs...)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, w.Header().Values("Set-Cookie"), name)
	}
}

func TestForwardSetsListHeaders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		target, more, total string
		link, count         string
		after               string
	}{
		"more":                     {"/api/jobs?limit=10&offset=20&state=queued", "true", "", "limit=10&offset=30&state=queued", "", ""},
		"more, by default":         {"/api/jobs", "true", "", "offset=50", "", ""},
		"the end":                  {"/api/jobs?limit=10", "false", "12", "", "12", ""},
		"more and a count":         {"/api/jobs?limit=1", "true", "7", "offset=1", "7", ""},
		"no metadata":              {"/api/jobs", "", "", "", "", ""},
		"invalid count":            {"/api/jobs", "", "many", "", "", ""},
		"after a position":         {"/api/jobs?limit=10&offset=20&after=old&q=x", "true", "", "after=job_1~x&limit=10&q=x", "", "job_1~x"},
		"after, past the offsets":  {"/api/jobs?offset=100000", "true", "", "after=5", "", "5"},
		"after lines":              {"/api/jobs?sort=name", "true", "", "after=a%0Ab+%25~job_1&sort=name", "", "a%0Ab%20%25~job_1"},
		"after, not escaped":       {"/api/jobs?sort=name", "true", "", "after=100%25~job_1&sort=name", "", "100%~job_1"},
		"after, but the last page": {"/api/jobs?limit=10", "", "", "", "", "5"},
	} {
		var pairs []string
		if tc.more != "" {
			pairs = append(pairs, "x-service-more", tc.more)
		}
		if tc.total != "" {
			pairs = append(pairs, "x-service-total", tc.total)
		}
		if tc.after != "" {
			pairs = append(pairs, "x-service-after", tc.after)
		}
		w, err := forwarded(t, "jobs", tc.target, 200, pairs...)
		require.NoError(t, err)
		link := w.Header().Get("Link")
		require.Equal(t, tc.link != "", strings.Contains(link, `rel="next"`), name)
		for part := range strings.SplitSeq(tc.link, "&") {
			require.Contains(t, link, part, name)
		}
		require.Equal(t, tc.count, w.Header().Get("X-Total-Count"), name)
	}
}

func TestFailFormatByPath(t *testing.T) {
	t.Parallel()
	wrong := fault.New(fault.MethodNotAllowed, "", "Method Not Allowed").Wrap(&router.MethodError{Methods: []string{"POST", "GET", "POST"}})
	for path, openAI := range map[string]bool{
		"/inference/d/v1/x": true, "/inference/": true, "/inference": true, "/api/jobs": false, "/inferences/x": false, "/api/inference/x": false,
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPut, path, nil)
		middleware.Fail(w, req.WithContext(obs.WithRequestID(req.Context(), "req_1")), wrong)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
		require.Equal(t, "GET, POST", w.Header().Get("Allow"), path)
		require.Equal(t, "req_1", w.Header().Get("X-Request-Id"), path)
		require.Contains(t, w.Body.String(), `"detail":"Method Not Allowed"`, path)
		require.Equal(t, openAI, strings.Contains(w.Body.String(), `"error":{`), path)
	}
}
