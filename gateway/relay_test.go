package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// inference is a handler that relays plain requests as "relayed", when it may.
type inference struct {
	http.Handler

	entered, may chan struct{}
}

func (i *inference) Relay(c httprelay.Conn, _ *httprelay.Request) httprelay.Result {
	i.entered <- struct{}{}
	<-i.may
	if c.WriteUntil([]byte("HTTP/1.1 200 OK\r\nX-Handler: relayed\r\nContent-Length: 0\r\n\r\n"), time.Now().Add(time.Minute)) != nil {
		return httprelay.Ended
	}
	return httprelay.Served
}

func startRelay(t *testing.T) (r *harness, i *inference) {
	t.Helper()
	i = &inference{echo("inference"), make(chan struct{}, 100), make(chan struct{})}
	r = start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.Public.URL, c.AllowedHosts, d.Inference = "https://box.example", []string{"infer.example"}, i
	})
	return r, i
}

// The gateway gives plain calls to the relay of inference. What it must refuse, and what is not plain, goes the usual way.
func TestRelay(t *testing.T) {
	t.Parallel()
	r, i := startRelay(t)
	close(i.may)
	conn := r.dial()
	in := bufio.NewReader(conn)
	call := func(target, headers string) (handler string) {
		body := ""
		if strings.HasSuffix(headers, "chunked\r\n") {
			body = "0\r\n\r\n"
		}
		_, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\n"+headers+"\r\n"+body)
		require.NoError(t, err)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err, target)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return resp.Header.Get("X-Handler")
	}
	for _, c := range []struct{ target, headers, handler string }{
		{"/inference/dep_1/v1/models", "Host: box.example\r\n", "relayed"},
		{"/inference/dep_1/v1/models", "Host: infer.example:80\r\n", "relayed"},
		{"/inference/dep_1/v1/models", "Host: 127.0.0.1\r\n", "relayed"},
		{"/inference/dep_1/v1/models", "Host: [::1]:8080\r\n", "relayed"},
		{"/inference/dep_1/v1/models?a=%2F", "Host: box\r\n", "relayed"},
		{"/inference/dep_1/v1/models", "Host: evil.example\r\n", ""},
		{"/inference/dep_1/v1/%6dodels", "Host: box\r\n", "inference"},
		{"/inferences/dep_1/v1/models", "Host: box\r\n", ""},
		{"/api/version?a=/inference/dep_1/v1/models", "Host: box\r\n", ""},
		{session + "/v1/models", "Host: box\r\n", ""},
		{"/inference/dep_1/v1/models", "Host: box\r\nTransfer-Encoding: chunked\r\n", "inference"},
	} {
		require.Equal(t, c.handler, call(c.target, c.headers), "%s %s", c.target, c.headers)
	}
	// While net/http ends a response, it may read the first byte of the next request, and then serves that request, too.
	for range 100 {
		if call("/inference/dep_1/v1/models", "Host: box\r\n") == "relayed" {
			return
		}
	}
	require.Fail(t, "after another request, no call of the connection is given to the relay")
}

// A stopping gateway finishes the calls of the relay, and refuses new ones.
func TestRelay_stopFinishesCalls(t *testing.T) {
	t.Parallel()
	r, i := startRelay(t)
	const call = "GET /inference/dep_1/v1/models HTTP/1.1\r\nHost: box\r\n\r\n"
	conn, late := r.dial(), r.dial()
	_, err := io.WriteString(conn, call)
	require.NoError(t, err)
	<-i.entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stopServing() }()
	require.Eventually(t, func() bool { return r.do(http.MethodGet, "/api/jobs", "").status == http.StatusServiceUnavailable }, time.Minute, time.Millisecond)
	_, err = io.WriteString(late, call)
	require.NoError(t, err)
	refused, err := http.ReadResponse(bufio.NewReader(late), nil)
	require.NoError(t, err)
	_ = refused.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.True(t, refused.Close)
	close(i.may)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, "relayed", resp.Header.Get("X-Handler"), "an open call must end")
	require.NoError(t, <-stopped)
}
