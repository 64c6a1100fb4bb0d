package reverseproxy_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// deadlineRecorder is a response writer that records the read deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder

	until []time.Time
}

func (w *deadlineRecorder) SetReadDeadline(at time.Time) error {
	w.until = append(w.until, at)
	return nil
}

// relaySlowBody relays the given body, with a Content-Length of two bytes, to a service.
func relaySlowBody(t *testing.T, service string, body io.Reader) *deadlineRecorder {
	t.Helper()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(back.Close)
	r := reverseproxy.New(reverseproxy.Upstream{Service: service, Address: back.Listener.Addr().String()}, nil,
		func(*http.Request) string { return "203.0.113.7" },
		func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "req_1") })
	t.Cleanup(r.Close)
	req := httptest.NewRequest(http.MethodPost, "/api/ingest/lifecycle", body)
	req.ContentLength = 2
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r.ServeHTTP(w, req)
	return w
}

// A small body occupies memory before its caller is checked, so the time to send it is limited.
func TestSmallBodyReadDeadline(t *testing.T) {
	t.Parallel()
	now := clock.Real().Now()
	got := relaySlowBody(t, "ingest", strings.NewReader("{}"))
	require.Equal(t, http.StatusNoContent, got.Code)
	require.Len(t, got.until, 2)
	require.WithinDuration(t, now.Add(30*time.Second), got.until[0], 20*time.Second)
	require.Zero(t, got.until[1], "the response may take longer")

	// A reporter repeats its report after 503, and drops it after 400.
	for service, status := range map[string]int{"ingest": http.StatusServiceUnavailable, "inference": http.StatusBadRequest} {
		late := relaySlowBody(t, service, io.MultiReader(strings.NewReader("{"), iotest.ErrReader(os.ErrDeadlineExceeded)))
		require.Equal(t, status, late.Code, service)
		require.Contains(t, late.Body.String(), "body_timeout")
		require.Contains(t, relaySlowBody(t, service, strings.NewReader("{")).Body.String(), "body_cut")
	}
}

// A service that refuses a stalled upload has ended the request, so the client's connection must not stay open.
func TestStalledBodyEndsAfterResponse(t *testing.T) {
	t.Parallel()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(back.Close)
	r := reverseproxy.New(reverseproxy.Upstream{Service: "ingest", Address: back.Listener.Addr().String()}, slog.New(slog.DiscardHandler),
		func(*http.Request) string { return "203.0.113.7" },
		func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "req_1") })
	t.Cleanup(r.Close)
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST /api/ingest/metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(clock.Real().Now().Add(20*time.Second)))
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the connection is closed although the client sends nothing")
}
