package inference_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference"
)

// echoServer starts an engine that accepts WebSockets and sends messages back. The message "leave" makes it close the
// WebSocket, and "die" makes it disconnect. It refuses WebSockets if the path ends in /closed. It records the target
// and the credentials of each request.
func echoServer(t *testing.T, options *websocket.AcceptOptions) *engine {
	t.Helper()
	e := &engine{open: map[net.Conn]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.heads = append(e.heads, r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Cookie")+r.Header.Get("Origin"))
		e.offer = strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ", ")
		e.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/closed") {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "no sockets here")
			return
		}
		c, err := websocket.Accept(w, r, options)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(-1)
		for {
			kind, data, err := c.Read(context.WithoutCancel(r.Context()))
			if err != nil {
				return
			}
			if string(data) == "leave" {
				_ = c.Close(4001, "as requested")
				return
			}
			if string(data) == "die" {
				return
			}
			if err := c.Write(context.WithoutCancel(r.Context()), kind, data); err != nil {
				return
			}
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	e.addr = server.Listener.Addr().String()
	return e
}

// dial opens a WebSocket as a caller.
func (r *harness) dial(bearer, path string, protocols ...string) (*websocket.Conn, reply, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	c, resp, err := websocket.Dial( //nolint:bodyclose // closed by the library or by the test.
		ctx, r.server.URL+"/inference/"+deploymentA+path, &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"Bearer " + bearer}, "Cookie": {"a=b"}}, Subprotocols: protocols,
			CompressionMode: websocket.CompressionContextTakeover,
		})
	if c != nil {
		r.t.Cleanup(func() { _ = c.CloseNow() })
		c.SetReadLimit(-1)
	}
	return c, reply{resp}, err
}

// echoes sends a message and requires that it comes back.
func (r *harness) echoes(c *websocket.Conn, kind websocket.MessageType, data string) {
	r.t.Helper()
	require.NoError(r.t, c.Write(r.t.Context(), kind, []byte(data)))
	got, back, err := c.Read(r.t.Context())
	require.NoError(r.t, err)
	require.Equal(r.t, kind, got)
	require.Equal(r.t, data, string(back))
}

// closed requires that the next read fails and returns the code and reason of the close frame. It returns -1 and the
// error if the connection ended without a close frame.
func closed(t *testing.T, c *websocket.Conn) (websocket.StatusCode, string) {
	t.Helper()
	_, _, err := c.Read(t.Context())
	if end, ok := errors.AsType[websocket.CloseError](err); ok {
		return end.Code, end.Reason
	}
	require.Error(t, err)
	return -1, err.Error()
}

func TestWebSocketRelay(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]websocket.CompressionMode{"plain": websocket.CompressionDisabled, "deflated": websocket.CompressionContextTakeover} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			w := newDeploymentStates(t, echoServer(t, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}, CompressionMode: mode}))
			r.ready(w.deployments()...)
			c, resp, err := r.dial(w.good.text, "/v1/realtime?model=x", "realtime")
			require.NoError(t, err)
			require.Equal(t, "realtime", c.Subprotocol())
			require.Regexp(t, "^req_", resp.Header.Get("X-Request-Id"))
			r.echoes(c, websocket.MessageText, "hello")
			r.echoes(c, websocket.MessageBinary, string([]byte{0, 1, 2, 255}))
			r.echoes(c, websocket.MessageText, strings.Repeat("long ", 100_000))
			require.NoError(t, c.Ping(c.CloseRead(t.Context())))
			require.NoError(t, c.Close(websocket.StatusNormalClosure, "bye"))
			require.Equal(t, []string{"/v1/realtime?model=x Bearer the-engines-own-key "}, w.e.seen(), "the caller's credentials must not reach the engine")
			got := r.rows(1)[0]
			require.Equal(t, []any{"ok", int32(101), "GET", "/v1/realtime", "good", true}, []any{got.Outcome, got.Status, got.Method, got.Path, got.Token, got.Stream})
			require.Equal(t, resp.Header.Get("X-Request-Id"), got.RequestID)
			var in, out int64
			require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT request_frames, response_frames FROM call`).Scan(&in, &out))
			require.GreaterOrEqual(t, in, int64(5), "three messages, a ping and the close frame must be counted")
			require.GreaterOrEqual(t, out, int64(5))
			require.Positive(t, got.In)
			require.Positive(t, got.Out)
		})
	}
}

func TestEngineDeclinesWebSocket(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, echoServer(t, nil))
	r.ready(w.deployments()...)
	_, resp, err := r.dial(w.good.text, "/v1/closed")
	require.Error(t, err)
	body, rerr := io.ReadAll(resp.Body)
	require.NoError(t, rerr)
	require.Equal(t, []any{http.StatusTeapot, "no sockets here"}, []any{resp.StatusCode, string(body)})
	require.Equal(t, "client_error", r.rows(1)[0].Outcome)
}

func TestWebSocketChecks(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(""))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	handshake := func(deployment, bearer string, change func(http.Header)) reply {
		req := r.request(http.MethodGet, "/inference/"+deployment+"/v1/realtime", bearer, "")
		for name, value := range map[string]string{
			"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			req.Header.Set(name, value)
		}
		if change != nil {
			change(req.Header)
		}
		return r.send(req)
	}
	refused(t, handshake(deploymentA, "", nil), 401, "token_invalid")
	refused(t, handshake(deploymentA, w.other.text, nil), 403, "token_of_another_deployment")
	refused(t, handshake(dep("z"), w.good.text, nil), 404, "")
	refused(t, handshake(dep("s"), w.suspended.text, nil), 503, "deployment_suspended")
	refused(t, handshake(dep("u"), w.unready.text, nil), 503, "no_ready_revision")
	for name, change := range map[string]func(http.Header){
		"no key":        func(h http.Header) { h.Del("Sec-Websocket-Key") },
		"short key":     func(h http.Header) { h.Set("Sec-Websocket-Key", "c2hvcnQ=") },
		"two keys":      func(h http.Header) { h.Add("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") },
		"no version":    func(h http.Header) { h.Del("Sec-Websocket-Version") },
		"older version": func(h http.Header) { h.Set("Sec-Websocket-Version", "8") },
		"two protocols": func(h http.Header) { h.Add("Upgrade", "h2c") },
	} {
		t.Run(name, func(t *testing.T) { refused(t, handshake(deploymentA, w.good.text, change), 400, "bad_upgrade") })
	}
	require.Empty(t, e.seen(), "refused handshakes must not reach an engine")
}

func TestInvalidEngineHandshake(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"other protocol": "Upgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
		"other key":      "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAALMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
		"no headers":     "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newDeploymentStates(t, newEngine(t, always("HTTP/1.1 101 Switching Protocols\r\n"+head+"\r\nGET /admin HTTP/1.1\r\n\r\n")))
			r.ready(w.deployments()...)
			_, resp, err := r.dial(w.good.text, "/v1/realtime")
			require.Error(t, err)
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			require.Equal(t, "engine_error", r.rows(1)[0].Outcome)
		})
	}
}

func TestWebSocketEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end     func(r *harness, w *deploymentStates, c *websocket.Conn)
		code    websocket.StatusCode
		outcome string
	}{
		"engine closes": {func(r *harness, _ *deploymentStates, c *websocket.Conn) {
			require.NoError(r.t, c.Write(r.t.Context(), websocket.MessageText, []byte("leave")))
		}, 4001, "ok"},
		"engine dies": {func(r *harness, _ *deploymentStates, c *websocket.Conn) {
			require.NoError(r.t, c.Write(r.t.Context(), websocket.MessageText, []byte("die")))
		}, 1014, "upstream_truncated"},
		"token is revoked": {func(r *harness, w *deploymentStates, _ *websocket.Conn) {
			all := w.deployments()
			all[0].Tokens = nil
			r.registry.await(r.t, r.registry.push(all...))
		}, websocket.StatusPolicyViolation, "revoked"},
		"deployment is suspended with cut": {func(r *harness, w *deploymentStates, _ *websocket.Conn) {
			all := w.deployments()
			all[0].Suspended, all[0].Cut = true, true
			r.registry.await(r.t, r.registry.push(all...))
		}, websocket.StatusTryAgainLater, "suspended"},
		"message is too large": {func(r *harness, _ *deploymentStates, c *websocket.Conn) {
			_ = c.Write(r.t.Context(), websocket.MessageBinary, make([]byte, 2<<20))
		}, websocket.StatusMessageTooBig, "client_error"},
		"idle for too long": {func(*harness, *deploymentStates, *websocket.Conn) {}, websocket.StatusGoingAway, "idle"},
		"server drains":     {func(r *harness, _ *deploymentStates, _ *websocket.Conn) { r.svc.Drain() }, websocket.StatusGoingAway, "draining"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, func(cfg *inference.Config) {
				if c.outcome == "idle" {
					cfg.SocketIdle = 200 * time.Millisecond
				}
			})
			w := newDeploymentStates(t, echoServer(t, nil))
			r.ready(w.deployments()...)
			conn, _, err := r.dial(w.good.text, "/v1/realtime")
			require.NoError(t, err)
			if c.outcome != "idle" {
				r.echoes(conn, websocket.MessageText, "hello")
			}
			c.end(r, w, conn)
			code, why := closed(t, conn)
			require.Equal(t, c.code, code, why)
			require.Equal(t, c.outcome, r.rows(1)[0].Outcome)
		})
	}
}

func TestDrainingSuspensionLetsCallsFinish(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	_, in := r.stream(w.good.text)
	s.words <- "before"
	require.Equal(t, "before", event(t, in))
	all := w.deployments()
	all[0].Suspended = true
	r.registry.await(t, r.registry.push(all...))
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 503, "deployment_suspended")
	s.words <- "after"
	require.Equal(t, "after", event(t, in))
	close(s.words)
	_, err := in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the stream must end cleanly")
	require.Equal(t, "ok", r.rows(1)[0].Outcome)
}

func TestCuttingSuspensionEndsCallsBeforeAck(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	_, in := r.stream(w.good.text)
	s.words <- "before"
	require.Equal(t, "before", event(t, in))
	all := w.deployments()
	all[0].Suspended, all[0].Cut = true, true
	r.registry.await(t, r.registry.push(all...))
	_, err := io.ReadAll(in)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut stream must not end cleanly")
	require.Equal(t, "suspended", r.rows(1)[0].Outcome)
	all[0].Suspended, all[0].Cut = false, false
	r.registry.await(t, r.registry.push(all...))
	require.NotEqual(t, 503, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", "", "").StatusCode)
}

func TestInformationalResponsesRelayed(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\nOpenai-Hint: 1\r\n\r\n"+
		httpResponse("200 OK", "text/plain", "after"))))
	r.ready(w.deployments()...)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /inference/"+deploymentA+"/v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+w.good.text+"\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(bufio.NewReader(conn))
	require.NoError(t, err)
	require.Regexp(t, "^HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nOpenai-Hint: 1\r\n\r\nHTTP/1.1 200 OK\r\n", string(all))
	_, last, _ := strings.Cut(string(all), "200 OK")
	require.NotContains(t, last, "Openai-Hint", "headers of 1xx responses must not appear in the final response")
	require.True(t, strings.HasSuffix(last, "after"))
}

// RFC 9110, section 15.2: a client of HTTP/1.0 would take a 1xx response for the final one.
func TestInformationalResponsesWithheldFromHTTP10(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+httpResponse("200 OK", "text/plain", "after"))))
	r.ready(w.deployments()...)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /inference/"+deploymentA+"/v1/models HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer "+w.good.text+"\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Regexp(t, "(?s)^HTTP/1.0 200 OK\r\n.*after$", string(all))
}
