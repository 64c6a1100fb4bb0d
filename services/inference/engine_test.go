package inference_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference"
)

// once returns a script that responds to the first request of a connection with the given bytes and closes the
// connection.
func once(bytes string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); ok {
			_, _ = io.WriteString(c, bytes)
		}
	}
}

const sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

const lost = `data: {"error":{"message":"the connection to the engine was lost","type":"server_error","code":"engine_lost"}}` + "\n\n"

func TestTruncatedEngineResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play script
		body string
	}{
		"dies between events":     {once(sse + "9\r\ndata: a\n\n\r\n"), "data: a\n\n" + lost},
		"dies within an event":    {once(sse + "7\r\ndata: a\r\n"), "data: a"},
		"dies before any event":   {once(sse), lost},
		"dies within a chunk":     {once(sse + "ff\r\ndata: a\n\n"), "data: a\n\n" + lost},
		"breaks the chunking":     {once(sse + "9\r\ndata: a\n\n\r\nzz\r\n"), "data: a\n\n" + lost},
		"dies after compression":  {once("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), "abc"},
		"promises more than sent": {once("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":"), `{"a":`},
		"dies within JSON chunks": {once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n"), `{"a`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newDeploymentStates(t, newEngine(t, c.play))
			r.ready(w.deployments()...)
			req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"stream":true}`)
			req.Header.Set("Accept-Encoding", "gzip") // otherwise the client would decompress the body
			resp := r.send(req)
			defer func() { _ = resp.Body.Close() }()
			require.Equal(t, 200, resp.StatusCode)
			body, err := io.ReadAll(resp.Body)
			require.Error(t, err, "a truncated response must not end cleanly")
			require.Equal(t, c.body, string(body))
			got := r.rows(1)[0]
			require.Equal(t, "upstream_truncated", got.Outcome)
			require.Equal(t, int32(200), got.Status)
		})
	}
}

func TestEngineClosesBeforeBody(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")))
	r.ready(w.deployments()...)
	resp, err := r.server.Client().Do(r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"))
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	require.Equal(t, "upstream_truncated", r.rows(1)[0].Outcome)
}

func TestInvalidEngineResponse(t *testing.T) {
	t.Parallel()
	hold := func(e *engine, _ net.Conn, in *bufio.Reader) {
		_, _, _ = e.read(in)
		_, _ = in.ReadByte() // blocks until the other side closes
	}
	for name, c := range map[string]struct {
		play    script
		code    string
		outcome string
	}{
		"silent":                {hold, "engine_timeout", "engine_timeout"},
		"closes after the call": {once(""), "engine_lost", "engine_error"},
		"closes at once":        {func(_ *engine, c net.Conn, _ *bufio.Reader) { _ = c.Close() }, "engine_lost", "engine_error"},
		"other protocol":        {once("SSH-2.0-OpenSSH\r\n\r\n"), "engine_lost", "engine_error"},
		"unrequested upgrade":   {once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "engine_lost", "engine_error"},
		"endless 1xx responses": {once(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20)), "engine_lost", "engine_error"},
		"endless head":          {once("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 200)), "engine_lost", "engine_error"},
		"half a status line":    {once("HTTP/1.1 2"), "engine_lost", "engine_error"},
		"two lengths":           {once("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"), "engine_lost", "engine_error"},
		"invalid status":        {once("HTTP/1.1 007 Bond\r\n\r\n"), "engine_lost", "engine_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, func(c *inference.Config) {
				if c.FirstByte = limit; name == "silent" {
					c.FirstByte = 300 * time.Millisecond // only this timeout can end the call
				}
			})
			w := newDeploymentStates(t, newEngine(t, c.play))
			r.ready(w.deployments()...)
			resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")
			defer func() { _ = resp.Body.Close() }()
			refused(t, resp, 502, c.code)
			got := r.rows(1)[0]
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, int32(502), got.Status)
			require.Equal(t, resp.Header.Get("X-Request-Id"), got.RequestID)
		})
	}
}

func TestUnreachableEngine(t *testing.T) {
	t.Parallel()
	gone := newEngine(t, always(""))
	gone.stop()
	r, w := open(t), newDeploymentStates(t, gone)
	r.ready(w.deployments()...)
	refused(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, ""), 502, "engine_unreachable")
	require.Equal(t, "engine_unreachable", r.rows(1)[0].Outcome)

	// If there is also a reachable replica, every call reaches it.
	alive := newEngine(t, always(httpResponse("200 OK", "", "alive")))
	r.registry.await(t, r.registry.push(served(deploymentA, list(w.good), gone, alive)))
	for range 8 {
		require.Equal(t, "alive", text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")))
	}
}

func TestInvalidEngineAddress(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("")))
	d := served(deploymentA, list(w.good), w.e)
	for _, address := range []string{"unix:///tmp/x", "https://127.0.0.1:1", "127.0.0.1:1", "http://", ":"} {
		d.Promoted.Replicas[0].Address = address
		r.registry.await(t, r.registry.push(d))
		r.ready(d)
		refused(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, ""), 502, "engine_unreachable")
	}
	require.Zero(t, w.e.connections())
}

func TestSentCallNotRetriedOnOtherReplica(t *testing.T) {
	t.Parallel()
	first, second := newEngine(t, once("")), newEngine(t, once(""))
	r, w := open(t), newDeploymentStates(t, first)
	r.ready(served(deploymentA, list(w.good), first, second))
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 502, "engine_lost")
	require.Equal(t, 1, len(first.seen())+len(second.seen()))
}

func TestClosedPooledConnectionReplaced(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		_, body, ok := e.read(in)
		if !ok {
			return
		}
		_, _ = io.WriteString(c, httpResponse("200 OK", "", string(body)))
		_ = c.Close()
		closed <- struct{}{}
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	for i := range 20 {
		body := `{"n":` + strings.Repeat("1", i+1) + `}`
		require.Equal(t, body, text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, body)))
		<-closed
	}
	require.Len(t, e.seen(), 20, "every request must be sent exactly once")
}

func TestUnrequestedEngineBytesDiscarded(t *testing.T) {
	t.Parallel()
	sent := make(chan struct{})
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		_, _, ok := e.read(in)
		if !ok {
			return
		}
		_, _ = io.WriteString(c, httpResponse("200 OK", "", "mine"))
		<-sent
		_, _ = io.WriteString(c, httpResponse("200 OK", "", "unrequested"))
		sent <- struct{}{}
		_, _ = in.ReadByte()
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	for range 5 {
		require.Equal(t, "mine", text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")))
		sent <- struct{}{}
		<-sent
	}
}

func TestLargeBodyStreamedDuringResponse(t *testing.T) {
	t.Parallel()
	parts := make(chan string)
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			size, err := in.ReadString('\n')
			if err != nil || size == "0\r\n" {
				_, _ = in.ReadString('\n')
				_, _ = io.WriteString(c, "0\r\n\r\n")
				return
			}
			data, err := in.ReadString('\n')
			if err != nil {
				return
			}
			parts <- strings.TrimSpace(data)
			_, _ = io.WriteString(c, "3\r\nyes\r\n")
		}
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	body, feed := io.Pipe()
	req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
	req.Body, req.ContentLength = body, -1
	response := make(chan reply, 1)
	go func() { response <- r.send(req) }()
	var resp reply
	for _, part := range []string{"one", "two", "three"} {
		_, err := io.WriteString(feed, part)
		require.NoError(t, err)
		require.Equal(t, part, <-parts, "the engine must get each part before the next is sent")
		if resp.Response == nil {
			resp = <-response
		}
		got := make([]byte, 3)
		_, err = io.ReadFull(resp.Body, got)
		require.NoError(t, err)
		require.Equal(t, "yes", string(got))
	}
	require.NoError(t, feed.Close())
	require.Empty(t, text(t, resp))
	require.Equal(t, int64(len("onetwothree")), r.rows(1)[0].In)
}

func TestEngineRespondsBeforeBodyIsSent(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(_ *engine, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, httpResponse("415 Unsupported Media Type", "", "not this"))
		_, _ = io.Copy(io.Discard, in)
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	body, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
	req.Body, req.ContentLength = body, -1
	resp := r.send(req)
	require.Equal(t, 415, resp.StatusCode)
	require.Equal(t, "not this", text(t, resp), "the response must arrive although the request body has not ended")
	require.Equal(t, "client_error", r.rows(1)[0].Outcome)
}

func TestMalformedRequestBody(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "taken as complete")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	start := "POST /inference/" + deploymentA + chat + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + w.good.text + "\r\n"
	resp := raw(t, r, start+"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nnot hex\r\n")
	require.Equal(t, 400, resp.StatusCode)
	got := r.rows(1)[0]
	require.Equal(t, "client_closed", got.Outcome)
	require.Equal(t, int32(400), got.Status)
	var out refusal
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(t, "body_cut", out.Code)
}
