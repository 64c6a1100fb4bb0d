package objectstore_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In HTTP/2 an upload of unknown length has no Transfer-Encoding header. The handler must reject it because
// Content-Length is missing.
func TestHandler_http2UploadWithoutLength(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	s := httptest.NewUnstartedServer(r.Handler())
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for name, c := range map[string]struct{ length, status int }{"without": {-1, 411}, "right": {4, 200}} {
		u, err := url.Parse(r.signPut(t, "two", "text"))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+u.RequestURI(), io.NopCloser(strings.NewReader("text")))
		require.NoError(t, err)
		req.ContentLength = int64(c.length)
		resp, err := s.Client().Do(req)
		require.NoError(t, err, name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, resp.ProtoMajor, name)
		require.Equal(t, c.status, resp.StatusCode, name)
	}
}
