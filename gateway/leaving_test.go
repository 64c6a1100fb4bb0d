package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// serving runs a worker of the gateway and returns its address and its Drain. The worker stops when the test ends.
func (r *harness) serving() (address string, drain func()) {
	r.t.Helper()
	l, err := r.gw.Listen(r.t.Context())
	require.NoError(r.t, err)
	w := r.gw.Worker(l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); require.ErrorIs(r.t, <-done, context.Canceled) })
	return l.Addr().String(), w.Drain
}

// While load balancers look for another replica, a kept connection would still lead to this one.
func TestLeavingGatewayEndsConnections(t *testing.T) {
	t.Parallel()
	r, i := startRelay(t)
	close(i.may)
	address, drain := r.serving()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	call := func(path string) (status int, handler string, closes bool) {
		_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: box.example\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, resp.Header.Get("X-Handler"), resp.Close
	}
	const engine = "/inference/dep_1/v1/models"
	for _, path := range []string{"/api/version", engine} {
		_, _, closes := call(path)
		require.False(t, closes, path)
	}
	drain()
	require.Equal(t, httprelay.Declined, r.gw.Relay(nil, &httprelay.Request{Target: engine, Host: "box.example"}))
	status, handler, closes := call(engine)
	require.Equal(t, []any{http.StatusOK, "inference", true}, []any{status, handler, closes})
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	for _, path := range []string{"/api/jobs", "/api/version", "/healthz"} {
		conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		in.Reset(conn)
		_, _, closes := call(path)
		require.True(t, closes, path)
		require.NoError(t, conn.Close())
	}
}

// goAway opens a connection of HTTP/2 with a request, calls the function leave, and requires GOAWAY. The function leave may
// send another request.
func goAway(t *testing.T, address string, leave func(another func())) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings())
	request := func(stream uint32) {
		// Three fields of the static table, GET, http and the path /, and the authority.
		block := append([]byte{0x82, 0x86, 0x84, 0x41, 0x03}, "box"...)
		require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndStream: true, EndHeaders: true}))
	}
	request(1)
	require.NotEqual(t, http2.FrameGoAway, lastFrame(t, framer, 1))
	leave(func() { request(3) })
	require.Equal(t, http2.FrameGoAway, lastFrame(t, framer, 0))
}

func TestLeavingGatewaySendsGoAway(t *testing.T) {
	t.Parallel()
	address, drain := start(t, nil).serving()
	goAway(t, address, func(another func()) { drain(); another() })
}

func TestStoppingGatewaySendsGoAway(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	goAway(t, strings.TrimPrefix(r.url, "http://"), func(func()) { require.NoError(t, r.stopServing()) })
}

// lastFrame reads frames until GOAWAY or the end of the stream, and returns the type of the last one.
func lastFrame(t *testing.T, f *http2.Framer, stream uint32) http2.FrameType {
	t.Helper()
	for {
		frame, err := f.ReadFrame()
		require.NoError(t, err)
		h := frame.Header()
		if h.Type == http2.FrameGoAway || stream != 0 && h.StreamID == stream && h.Flags.Has(http2.FlagDataEndStream) {
			return h.Type
		}
	}
}
