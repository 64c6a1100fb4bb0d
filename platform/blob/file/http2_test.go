package file_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// HTTP/2 has no chunks, so an upload may come without a length and without a header that says so.
func TestAnUploadOverHTTP2NeedsItsLength(t *testing.T) {
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
		answer, err := s.Client().Do(req)
		require.NoError(t, err, name)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 2, answer.ProtoMajor, name)
		require.Equal(t, c.status, answer.StatusCode, name)
	}
}
