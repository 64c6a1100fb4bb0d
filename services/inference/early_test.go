package inference_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

// A connection whose request body was not read to its end cannot carry another request (golang/go#68560).
func TestEarlyResponseClosesConnection(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]script{
		"response": func(_ *engine, c net.Conn, in *bufio.Reader) {
			_, _ = in.ReadString('\n')
			_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, in)
		},
		"failure": func(_ *engine, c net.Conn, in *bufio.Reader) {
			_, _ = in.ReadString('\n')
			_, _ = io.WriteString(c, "no HTTP\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newDeploymentStates(t, newEngine(t, play))
			r.ready(w.deployments()...)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.SetDeadline(time.Now().Add(limit)))
			_, err = fmt.Fprintf(conn, "POST /inference/%s%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n",
				deploymentA, chat, w.good.text)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, resp.Close, "status %d: the caller must not send another request on this connection", resp.StatusCode)
		})
	}
}

func TestResponseAfterWholeBodyKeepsConnection(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			if _, _, ok := e.read(in); !ok {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r, token := open(t), newToken(t, "good")
	r.ready(served(deploymentA, []*registrypeerv1.ServedToken{token.served}, engine))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(limit)))
	in := bufio.NewReader(conn)
	for range 3 {
		_, err = io.WriteString(conn, strings.Join([]string{
			"POST /inference/" + deploymentA + chat + " HTTP/1.1", "Host: x", "Authorization: Bearer " + token.text,
			"Transfer-Encoding: chunked", "", "4", "ping", "0", "", "",
		}, "\r\n"))
		require.NoError(t, err)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.False(t, resp.Close)
	}
}
