package webpage

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	provider = "https://login.example/authorize?client_id=signalbox&state=st4te"
	bound    = "b1nding"
	session  = "service_refresh=rft_x; Path=/; HttpOnly"
)

// oidc is a fake of auth's sign-in through a provider.
type oidc struct {
	begun    []*authpeerv1.BeginOidcRequest
	finished []*authpeerv1.FinishOidcRequest
	at, next string
	err      error
}

func (o *oidc) BeginOidc(_ context.Context, in *authpeerv1.BeginOidcRequest, _ ...grpc.CallOption) (*authpeerv1.BeginOidcResponse, error) {
	o.begun = append(o.begun, in)
	return &authpeerv1.BeginOidcResponse{AuthorizationUrl: o.at, Binding: bound}, o.err
}

func (o *oidc) FinishOidc(_ context.Context, in *authpeerv1.FinishOidcRequest, opts ...grpc.CallOption) (*authpeerv1.FinishOidcResponse, error) {
	o.finished = append(o.finished, in)
	for _, opt := range opts {
		if h, ok := opt.(grpc.HeaderCallOption); ok {
			*h.HeaderAddr = metadata.Pairs("x-service-set-cookie", session)
		}
	}
	return &authpeerv1.FinishOidcResponse{Next: o.next}, o.err
}

// harness serves the pages with a fake auth.
type harness struct {
	*oidc
	t      *testing.T
	pages  *Pages
	config *authv1.AuthConfig
	failed error
}

func newHarness(t *testing.T, secure bool) *harness {
	t.Helper()
	return newSiteHarness(t, secure, fstest.MapFS{}, fstest.MapFS{})
}

// newSiteHarness is newHarness with builds of the console and of the documentation.
func newSiteHarness(t *testing.T, secure bool, console, docs fs.FS) *harness {
	t.Helper()
	h := &harness{t: t, oidc: &oidc{at: provider, next: "/jobs?a=b"}, config: &authv1.AuthConfig{Methods: []string{"password"}}}
	var err error
	h.pages, err = New(Deps{
		Config: func(*http.Request) (*authv1.AuthConfig, error) { return h.config, h.failed },
		OIDC:   h.oidc, Client: func(*http.Request) string { return "203.0.113.9" }, Secure: secure,
		Session: func(to http.Header, md metadata.MD) { to.Add("Set-Cookie", md.Get("x-service-set-cookie")[0]) },
		Fail:    func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "req_1") },
		Console: console, Docs: docs,
	})
	require.NoError(t, err)
	return h
}

// get requests a page as a browser does. The headers are pairs of name and value.
func (h *harness) get(target string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.URL.Path, req.URL.RawQuery = target, ""
	if u, err := req.URL.Parse(target); err == nil {
		req.URL = u
	}
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.pages.ServeHTTP(w, req)
	return w
}
