package reverseproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refuseEarly responds with 403 after the first four bytes of the body.
func refuseEarly(w http.ResponseWriter, req *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	_, _ = io.ReadFull(req.Body, make([]byte, 4))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusForbidden)
}

// A connection whose request body was not read to its end cannot carry another request (golang/go#68560).
func TestEarlyResponseClosesConnection(t *testing.T) {
	t.Parallel()
	r := over(t, refuseEarly)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n")
	require.NoError(t, err)
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.True(t, resp.Close, "the client must not send another request on this connection")
	_, _ = io.WriteString(conn, "4\r\npong\r\n0\r\n\r\n") // fails if the gateway has closed the connection by now
	_, err = read.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the gateway left the connection open")
}

func TestResponseAfterWholeBodyKeepsConnection(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	read := bufio.NewReader(conn)
	for range 3 {
		_, err = io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n0\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(read, nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.False(t, resp.Close)
	}
}
