package inference_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const over = `data: {"error":{"message":"it expired at noon","type":"server_error","code":"session_over"}}` + "\n\n"

// sendAndHold returns a script that begins an event stream with the given text and holds the connection open.
func sendAndHold(headers, text string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); !ok {
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", headers, len(text), text)
		_, _ = in.ReadByte()
	}
}

func TestPlaygroundSessionEndsWithinEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ headers, sent, added string }{
		"after an event":    {"", "data: {}\n\n", over},
		"within an event":   {"", "data: {}\n\ndata: {\"id\": \"c1\", ", ""},
		"after a line":      {"", "data: {}\n\ndata: {}\n", ""},
		"CRLF":              {"", "data: {}\r\n\r\n", over},
		"after a comment":   {"", ": ping\n", over},
		"compressed stream": {"Content-Encoding: br\r\n", "data: {}\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			caller := r.openSession(newEngine(t, sendAndHold(c.headers, c.sent)), time.Second)
			resp := r.callTarget(caller, http.MethodPost, "1/v1/chat/completions", `{"stream":true}`)
			defer func() { _ = resp.Body.Close() }()
			begin := make([]byte, len(c.sent))
			_, err := io.ReadFull(resp.Body, begin)
			require.NoError(t, err)
			require.Equal(t, c.sent, string(begin))
			r.sessions.mu.Lock()
			r.sessions.over = fault.New(fault.Conflict, "session_over", "it expired at noon")
			r.sessions.mu.Unlock()
			rest, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut stream must not end cleanly")
			require.Equal(t, c.added, string(rest))
			require.Contains(t, r.turns(1)[0], " 200 session_over ")
		})
	}
}

func TestRevocationWithinEvent(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"data: {}\n\n", "data: {}\n\ndata: {\"id\": \"c1\", "} {
		r, w := open(t), newDeploymentStates(t, newEngine(t, sendAndHold("", sent)))
		r.ready(w.deployments()...)
		resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"stream":true}`)
		defer func() { _ = resp.Body.Close() }()
		begin := make([]byte, len(sent))
		_, err := io.ReadFull(resp.Body, begin)
		require.NoError(t, err)
		r.registry.await(t, r.registry.push(served(deploymentA, nil, w.e)))
		rest, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Empty(t, string(rest))
		require.Equal(t, "revoked", r.rows(1)[0].Outcome)
	}
}
