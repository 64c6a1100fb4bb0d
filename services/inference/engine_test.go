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

// once answers the first request of a connection with these bytes and closes it.
func once(bytes string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); ok {
			_, _ = io.WriteString(c, bytes)
		}
	}
}

const sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

const lost = `data: {"error":{"message":"engine connection lost","type":"server_error","code":"engine_lost"}}` + "\n\n"

func TestEnginesThatMisbehaveAfterTheHead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play script
		body string
	}{
		"dies between events":     {once(sse + "9\r\ndata: a\n\n\r\n"), "data: a\n\n" + lost},
		"dies within an event":    {once(sse + "7\r\ndata: a\r\n"), "data: a\n\n" + lost},
		"dies before any event":   {once(sse), lost},
		"dies within a chunk":     {once(sse + "ff\r\ndata: a\n\n"), "data: a\n\n" + lost},
		"breaks the chunking":     {once(sse + "9\r\ndata: a\n\n\r\nzz\r\n"), "data: a\n\n" + lost},
		"compressed, then dies":   {once("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), "abc"},
		"promises more than sent": {once("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":"), `{"a":`},
		"dies within JSON chunks": {once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n"), `{"a`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newWorld(t, newEngine(t, c.play))
			r.ready(w.deployments()...)
			req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"stream":true}`)
			req.Header.Set("Accept-Encoding", "gzip") // else the client would unpack
			resp := r.send(req)
			defer func() { _ = resp.Body.Close() }()
			require.Equal(t, 200, resp.StatusCode)
			body, err := io.ReadAll(resp.Body)
			require.Error(t, err, "what was cut never ends well")
			require.Equal(t, c.body, string(body))
			got := r.rows(1)[0]
			require.Equal(t, "upstream_truncated", got.Outcome)
			require.Equal(t, int32(200), got.Status)
		})
	}
}

func TestAnEngineThatDiesBeforeTheBodyItPromised(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")))
	r.ready(w.deployments()...)
	resp, err := r.server.Client().Do(r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"))
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	require.Equal(t, "upstream_truncated", r.rows(1)[0].Outcome)
}

func TestEnginesThatGiveNoAnswer(t *testing.T) {
	t.Parallel()
	hold := func(e *engine, _ net.Conn, in *bufio.Reader) {
		_, _, _ = e.read(in)
		_, _ = in.ReadByte() // until the other side gives up
	}
	for name, c := range map[string]struct {
		play    script
		code    string
		outcome string
	}{
		"says nothing":               {hold, "engine_timeout", "engine_timeout"},
		"takes the call and closes":  {once(""), "engine_lost", "engine_error"},
		"closes at once":             {func(_ *engine, c net.Conn, _ *bufio.Reader) { _ = c.Close() }, "engine_lost", "engine_error"},
		"speaks another protocol":    {once("SSH-2.0-OpenSSH\r\n\r\n"), "engine_lost", "engine_error"},
		"switches protocols unasked": {once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "engine_lost", "engine_error"},
		"informs without end":        {once(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20)), "engine_lost", "engine_error"},
		"sends a head without end":   {once("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 200)), "engine_lost", "engine_error"},
		"half a status line":         {once("HTTP/1.1 2"), "engine_lost", "engine_error"},
		"two lengths":                {once("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"), "engine_lost", "engine_error"},
		"a status that is none":      {once("HTTP/1.1 007 Bond\r\n\r\n"), "engine_lost", "engine_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, func(c *inference.Config) {
				if c.FirstByte = limit; name == "says nothing" {
					c.FirstByte = 300 * time.Millisecond // which is all that ends this one
				}
			})
			w := newWorld(t, newEngine(t, c.play))
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

func TestAnEngineThatCannotBeReached(t *testing.T) {
	t.Parallel()
	gone := newEngine(t, always(""))
	gone.stop()
	r, w := open(t), newWorld(t, gone)
	r.ready(w.deployments()...)
	refused(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, ""), 502, "engine_unreachable")
	require.Equal(t, "engine_unreachable", r.rows(1)[0].Outcome)

	// With another replica beside it the call finds that one, each time.
	alive := newEngine(t, always(answer("200 OK", "", "alive")))
	r.registry.await(t, r.registry.push(served(deploymentA, list(w.good), gone, alive)))
	for range 8 {
		require.Equal(t, "alive", text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")))
	}
}

func TestAnAddressThatIsNoneOfHTTP(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, always("")))
	d := served(deploymentA, list(w.good), w.e)
	for _, address := range []string{"unix:///tmp/x", "https://127.0.0.1:1", "127.0.0.1:1", "http://", ":"} {
		d.Promoted.Replicas[0].Address = address
		r.registry.await(t, r.registry.push(d))
		r.ready(d)
		refused(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, ""), 502, "engine_unreachable")
	}
	require.Zero(t, w.e.connections())
}

func TestACallThatWasSentIsNotSentToAnother(t *testing.T) {
	t.Parallel()
	first, second := newEngine(t, once("")), newEngine(t, once(""))
	r, w := open(t), newWorld(t, first)
	r.ready(served(deploymentA, list(w.good), first, second))
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 502, "engine_lost")
	require.Equal(t, 1, len(first.seen())+len(second.seen()))
}

func TestTheEnginesWordIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, status, body, outcome string
	}{
		{answer("200 OK", "application/json", okJSON), "200 OK", okJSON, "ok"},
		{answer("400 Bad Request", "application/json", `{"error":"own words"}`), "400 Bad Request", `{"error":"own words"}`, "ok"},
		{answer("429 Too Many Requests", "text/plain", "slow"), "429 Too Many Requests", "slow", "ok"},
		{answer("500 Internal Server Error", "", "boom"), "500 Internal Server Error", "boom", "engine_error"},
		{answer("599 Odd", "", "odd"), "599 ", "odd", "engine_error"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "204 No Content", "", "ok"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "200 OK", "abcde", "ok"},
		{"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer("200 OK", "", "after"), "200 OK", "after", "ok"},
	} {
		t.Run(c.status+c.body, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newWorld(t, newEngine(t, always(c.raw)))
			r.ready(w.deployments()...)
			resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"model":"asked"}`)
			require.Equal(t, c.body, text(t, resp))
			require.Equal(t, strings.Fields(c.status)[0], strings.Fields(resp.Status)[0])
			got := r.rows(1)[0]
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, int64(len(c.body)), got.Out)
			require.Equal(t, int64(len(`{"model":"asked"}`)), got.In)
		})
	}
}

func TestAnAnswerThatEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, once("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")))
	r.ready(w.deployments()...)
	for range 2 {
		require.Equal(t, "to the end", text(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")))
	}
	require.Equal(t, 2, w.e.connections())
}

func TestHeadersOfTheEngineThatNoCallerSees(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"Set-Cookie: a=b", "Clear-Site-Data: \"*\"", "Service-Worker-Allowed: /", "Alt-Svc: h3=\":1\"", "Strict-Transport-Security: max-age=1",
		"Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Location: https://evil", "Refresh: 0;url=//evil",
		"Content-Security-Policy: default-src *", "X-Content-Type-Options: whatever", "X-Request-Id: engines", "Server: engine/1",
		"WWW-Authenticate: Basic", "Authorization: Bearer x", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Link: </x>; rel=preload",
		"Connection: X-Named", "X-Named: 1", "Trailer: X-T", "Upgrade: h2c", "X-Service-Token: t", "Public-Key-Pins: x", "Set-Cookie2: y", "Via: 1.1 x",
	}
	allowed := []string{"Openai-Processing-Ms: 12", "Cache-Control: max-age=3", "Etag: \"v\"", "Retry-After: 7", "X-Process-Time: 1", "Vary: Accept"}
	r, w := open(t), newWorld(t, newEngine(t, always(answer("200 OK", "text/html", "<script>", append(hostile, allowed...)...))))
	r.ready(w.deployments()...)
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	require.Equal(t, "<script>", text(t, resp))
	got := resp.Header
	for _, h := range allowed {
		name, value, _ := strings.Cut(h, ": ")
		require.Equal(t, []string{value}, got[name], name)
		delete(got, name)
	}
	require.Regexp(t, "^req_", got.Get("X-Request-Id"))
	got.Del("X-Request-Id")
	got.Del("Date")
	require.Equal(t, http.Header{
		"Content-Type": {"text/html"}, "Content-Length": {"8"}, "X-Content-Type-Options": {"nosniff"},
		"Content-Security-Policy": {"sandbox; default-src 'none'"},
	}, got)
}

func TestATypeThatTheEngineDidNotNameIsNotGuessed(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, always(answer("200 OK", "", "<html><script>"))))
	r.ready(w.deployments()...)
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	_ = text(t, resp)
	require.Empty(t, resp.Header["Content-Type"])
}

func TestHeadersOfTheCallerThatNoEngineSees(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, always(answer("200 OK", "", "ok"))))
	r.ready(w.deployments()...)
	passes := map[string]string{
		"Accept": "a/b", "Accept-Encoding": "gzip", "Accept-Language": "de", "Content-Type": "application/json", "Openai-Beta": "x",
		"User-Agent": "me", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	hidden := []string{
		"Cookie", "X-Service-Token", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-Ip", "Proxy-Authorization",
		"Te", "Via", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X_forwarded_for", "X-Api-Key", "X-Request-Id", "Origin",
		"Referer", "Keep-Alive", "Proxy-Connection", "X-Service-Caller", "Grpc-Metadata-X", "Baggage", "Range", "If-None-Match",
	}
	for i := range 300 {
		req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")
		want := map[string]string{"Host": w.e.addr, "Content-Length": "2", "Authorization": "Bearer " + engineKey}
		for name, value := range passes {
			req.Header.Set(name, value)
			want[name] = value
		}
		req.Header.Set(hidden[i%len(hidden)], "evil")
		req.Header.Add(strings.ToLower(hidden[(i*7)%len(hidden)]), "evil too")
		if i%3 == 0 {
			req.Header.Set("Connection", "Openai-Beta, authorization")
			delete(want, "Openai-Beta")
		}
		if i%5 == 0 {
			req.Header.Set("Traceparent", "00-malformed")
			delete(want, "Traceparent")
		}
		require.Equal(t, "ok", text(t, r.send(req)))
		heads := w.e.seen()
		got := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(heads[len(heads)-1]), "\r\n")[1:] {
			name, value, _ := strings.Cut(line, ": ")
			require.NotContains(t, got, name, "sent twice")
			got[name] = value
		}
		require.Regexp(t, `^req_[0-9a-z]{26}$`, got["X-Request-Id"])
		delete(got, "X-Request-Id")
		require.Equal(t, want, got, "%d: %s", i, hidden[i%len(hidden)])
	}
	require.Equal(t, 1, w.e.connections(), "one connection carried them all")
}

func TestAPooledConnectionThatTheEngineClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		_, body, ok := e.read(in)
		if !ok {
			return
		}
		_, _ = io.WriteString(c, answer("200 OK", "", string(body)))
		_ = c.Close()
		closed <- struct{}{}
	})
	r, w := open(t), newWorld(t, e)
	r.ready(w.deployments()...)
	for i := range 20 {
		body := `{"n":` + strings.Repeat("1", i+1) + `}`
		require.Equal(t, body, text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, body)))
		<-closed
	}
	require.Len(t, e.seen(), 20, "each was sent once")
}

func TestBytesThatNoOneAskedForAreNoOnesAnswer(t *testing.T) {
	t.Parallel()
	sent := make(chan struct{})
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		_, _, ok := e.read(in)
		if !ok {
			return
		}
		_, _ = io.WriteString(c, answer("200 OK", "", "mine"))
		<-sent
		_, _ = io.WriteString(c, answer("200 OK", "", "of someone else"))
		sent <- struct{}{}
		_, _ = in.ReadByte()
	})
	r, w := open(t), newWorld(t, e)
	r.ready(w.deployments()...)
	for range 5 {
		require.Equal(t, "mine", text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")))
		sent <- struct{}{}
		<-sent
	}
}

func TestALargeBodyIsStreamedWhileItIsAnswered(t *testing.T) {
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
	r, w := open(t), newWorld(t, e)
	r.ready(w.deployments()...)
	body, feed := io.Pipe()
	req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
	req.Body, req.ContentLength = body, -1
	answered := make(chan reply, 1)
	go func() { answered <- r.send(req) }()
	var resp reply
	for _, part := range []string{"one", "two", "three"} {
		_, err := io.WriteString(feed, part)
		require.NoError(t, err)
		require.Equal(t, part, <-parts, "the engine has it while the body goes on")
		if resp.Response == nil {
			resp = <-answered
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

func TestAnEngineThatAnswersBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(_ *engine, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, answer("415 Unsupported Media Type", "", "not this"))
		_, _ = io.Copy(io.Discard, in)
	})
	r, w := open(t), newWorld(t, e)
	r.ready(w.deployments()...)
	body, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
	req.Body, req.ContentLength = body, -1
	resp := r.send(req)
	require.Equal(t, 415, resp.StatusCode)
	require.Equal(t, "not this", text(t, resp), "though the caller never ended its body")
	require.Equal(t, "ok", r.rows(1)[0].Outcome)
}

func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(answer("200 OK", "", "taken for whole")))
	r, w := open(t), newWorld(t, e)
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
