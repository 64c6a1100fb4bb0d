package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestClient_UploadFrom(t *testing.T) {
	t.Parallel()
	type seen struct {
		body   string
		length int64
	}
	got := make(chan seen, 1)
	c := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got <- seen{string(raw), r.ContentLength}
	})
	for _, body := range []string{"abc", "", "longer"} {
		require.NoError(t, c.UploadFrom(t.Context(), http.MethodPut, c.Base()+"/b", nil, iotest.OneByteReader(strings.NewReader(body)), int64(len(body))))
		require.Equal(t, seen{body, int64(len(body))}, <-got, "an object store accepts no chunks")
	}
	require.NoError(t, c.UploadFrom(t.Context(), http.MethodPut, c.Base()+"/b", nil, strings.NewReader("grown"), 4))
	require.Equal(t, "grow", (<-got).body, "what was appended meanwhile is not sent")
}

// A repeat of these uploads would fail again, for ever.
func TestClient_UploadFrom_brokenBody(t *testing.T) {
	t.Parallel()
	c := serving(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	broken := errors.New("input/output error")
	err := c.UploadFrom(t.Context(), http.MethodPut, c.Base()+"/b", nil, iotest.ErrReader(broken), 4)
	require.ErrorIs(t, err, broken)
	require.False(t, Retryable(err))
	err = c.UploadFrom(t.Context(), http.MethodPut, c.Base()+"/b", nil, strings.NewReader("abc"), 4)
	require.ErrorIs(t, err, errSize)
	require.False(t, Retryable(err))
}

// countingReader fails the test if it is read after done.
type countingReader struct {
	t    *testing.T
	done bool
}

func (r *countingReader) Read(p []byte) (int, error) {
	if r.done {
		r.t.Error("the body was read after the end of the upload")
	}
	return len(p), nil
}

func TestClient_UploadFrom_readsNothingAfterReturn(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for range 20 {
		body := &countingReader{t: t}
		err := c.UploadFrom(t.Context(), http.MethodPut, c.Base()+"/b", nil, body, 1<<40)
		require.True(t, Retryable(err), "%v", err)
		body.done = true // the race detector sees a later read
	}
}

func TestClient_Upload_errorOfStore(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>They differ.</Message>`+
			`<SignatureProvided>hunter2</SignatureProvided></Error>`)
	})
	err := c.Upload(t.Context(), http.MethodPut, c.Base()+"/b", nil, []byte("x"))
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "SignatureDoesNotMatch", refused.Code)
	require.EqualError(t, err, "403: SignatureDoesNotMatch They differ.")
	require.NotContains(t, string(refused.Body), "hunter2")
}
