package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestClient_Stream(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			_, _ = io.WriteString(w, "all of "+r.URL.Query().Get("q"))
		case "/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "a part")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"detail": "no such log"}`)
		}
	})
	var out bytes.Buffer
	require.NoError(t, c.Stream(t.Context(), "/whole", url.Values{"q": {"it"}}, &out))
	require.Equal(t, "all of it", out.String())
	err := c.Stream(t.Context(), "/whole", nil, full{})
	require.ErrorIs(t, err, errFull)
	require.False(t, Retryable(err), "a repeat does not empty the disk")
	out.Reset()
	err = c.Stream(t.Context(), "/broken", nil, &out)
	require.True(t, Retryable(err), "%v", err)
	require.Equal(t, "a part", out.String())
	require.ErrorContains(t, c.Stream(t.Context(), "/gone", nil, &out), "404: no such log")
}
