package httpguard_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// ask sends a GET request and requires the response.
func ask(t *testing.T, conn net.Conn, target string) {
	t.Helper()
	_, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
}

// A Farewell ends its own request only.
func TestRelay_interruptAfterFarewell(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{})
	addr, _ := relay(t, func(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
		if r.Target == "/fast/1" {
			c.Farewell([]byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"), time.Now().Add(patience))
			return httprelay.Served
		}
		timer := time.AfterFunc(20*time.Millisecond, c.Interrupt)
		defer timer.Stop()
		for c.WriteUntil(make([]byte, 64<<10), time.Now().Add(patience)) == nil {
			continue // the client does not read
		}
		close(cut)
		return httprelay.Ended
	})
	conn, in := connect(t, addr)
	ask(t, conn, "/fast/1")
	require.Empty(t, next(t, in))
	ask(t, conn, "/fast/2")
	select {
	case <-cut:
	case <-time.After(patience / 2):
		require.Fail(t, "a write was not interrupted")
	}
}

// A client that has been served must send the next head within the limit, however it is divided.
func TestRelay_slowHead(t *testing.T) {
	t.Parallel()
	addr, _ := relayWithin(t, echo, 100*time.Millisecond)
	conn, in := connect(t, addr)
	ask(t, conn, "/fast")
	require.Equal(t, "relay /fast ", next(t, in))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	require.Eventually(t, func() bool {
		<-tick.C
		_, err := io.WriteString(conn, "G")
		return err != nil
	}, patience/2, time.Millisecond, "the connection must be closed")
}

// A client that is still sending its body sees the refusal.
func TestRelay_refusalDuringBody(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{})
	addr, _ := relay(t, func(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
		err := c.ReadBody(make([]byte, r.Length), time.Now().Add(late))
		if err == nil {
			panic("a body was read that was not sent")
		}
		c.Farewell([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), time.Now().Add(patience))
		close(refused)
		return httprelay.Ended
	})
	conn, in := connect(t, addr)
	const parts, size = 10, 10_000
	_, err := fmt.Fprintf(conn, "POST /fast HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", parts*size)
	require.NoError(t, err)
	<-refused
	for i := range parts {
		_, err = conn.Write(make([]byte, size))
		require.NoError(t, err, "part %d", i)
	}
	require.Empty(t, next(t, in))
}

func TestRelay_prefaceAfterRelayed(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, echo)
	conn, in := connect(t, addr)
	ask(t, conn, "/fast")
	require.Equal(t, "relay /fast ", next(t, in))
	_, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	require.NoError(t, err)
	require.Contains(t, next(t, in), `"code":"malformed_request"`)
}

// No response follows one that was sent in part.
func TestRelay_partialFarewell(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, func(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
		if r.Target == "/fast/1" {
			body := strings.Repeat("x", 128<<20) // more than the largest buffers of the kernel
			c.Farewell(fmt.Appendf(nil, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%s", len(body), body), time.Now().Add(late))
			return httprelay.Served
		}
		return echo(c, r)
	})
	conn, in := connect(t, addr)
	ask(t, conn, "/fast/1")
	ask(t, conn, "/fast/2")
	<-time.After(4 * late) // do not read meanwhile
	all, err := io.ReadAll(in)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection must end")
	require.NotContains(t, string(all), "relay /fast/2")
}
