package command_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// promptedReader calls a function when it is read for the first time, and then waits.
type promptedReader struct {
	io.Reader

	prompted func()
}

func (r promptedReader) Read(p []byte) (int, error) {
	r.prompted()
	return r.Reader.Read(p)
}

// Ctrl-C at the prompt of a conversation revokes its token.
func TestChat_interruptedRevokesToken(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var revoked atomic.Bool
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/model-deployments/dep_01kab3c4d5e6f7g8h9j0kmnpqr/tokens":
			_, _ = io.WriteString(w, `{"id":"tok_1","token":"hunter2"}`)
		case "DELETE /api/model-deployments/dep_01kab3c4d5e6f7g8h9j0kmnpqr/tokens/tok_1":
			revoked.Store(true)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	typing, person := io.Pipe()
	t.Cleanup(func() { _ = person.Close() })
	h.reader = promptedReader{typing, interrupt}
	got := h.runContext(ctx, "chat", "dep_01kab3c4d5e6f7g8h9j0kmnpqr")
	require.Equal(t, 130, got.code, got.err)
	require.True(t, revoked.Load())
	require.NotContains(t, got.out+got.err, "hunter2")
}
