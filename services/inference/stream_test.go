package inference_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference"
)

// wordStream is an engine that streams an event for each word.
type wordStream struct {
	words chan string   // when it is closed, the stream ends cleanly
	began chan struct{} // receives a value when a stream begins
	gone  chan struct{} // receives a value when a stream has ended
}

func newWordStream() *wordStream {
	return &wordStream{words: make(chan string), began: make(chan struct{}, 64), gone: make(chan struct{}, 64)}
}

func (s *wordStream) play(e *engine, c net.Conn, in *bufio.Reader) {
	if _, _, ok := e.read(in); !ok {
		return
	}
	left := make(chan struct{})
	go func() {
		_, _ = in.ReadByte()
		close(left)
	}()
	defer func() { _ = c.Close(); <-left; s.gone <- struct{}{} }()
	s.began <- struct{}{} // send this before the caller can see the stream
	_, _ = io.WriteString(c, sse)
	for {
		select {
		case word, more := <-s.words:
			if !more {
				_, _ = io.WriteString(c, "0\r\n\r\n")
				return
			}
			event := "data: " + word + "\n\n"
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(event), event)
		case <-left:
			return
		}
	}
}

// stream starts a streaming call to the deployment.
func (r *harness) stream(bearer string) (reply, *bufio.Reader) {
	r.t.Helper()
	resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, bearer, `{"model":"default","stream":true}`)
	require.Equal(r.t, 200, resp.StatusCode)
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body)
}

func event(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	blank, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "\n", blank)
	return strings.TrimSuffix(strings.TrimPrefix(line, "data: "), "\n")
}

func TestStreamEventsFlushedImmediately(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	resp, in := r.stream(w.good.text)
	require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
	require.Equal(t, "private, no-cache", resp.Header.Get("Cache-Control"))
	for i := range 50 {
		word := fmt.Sprintf(`{"i":%d}`, i)
		s.words <- word // the engine sends the next event only after this one was read below
		require.Equal(t, word, event(t, in))
	}
	s.words <- `{"model":"tiny","choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":50}}`
	_ = event(t, in)
	s.words <- "[DONE]"
	require.Equal(t, "[DONE]", event(t, in))
	close(s.words)
	_, err := in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "a complete stream must end cleanly")
	got := r.rows(1)[0]
	require.Equal(t, "ok", got.Outcome)
	require.True(t, got.Stream)
	require.Equal(t, "engine", got.Usage)
	require.Equal(t, int32(4), *got.Prompt)
	require.Equal(t, int32(50), *got.Completion)
	require.Equal(t, "length", *got.Finish)
	require.Equal(t, "tiny", *got.ResponseModel)
	require.Equal(t, "default", *got.RequestedModel)
	require.NotNil(t, got.TTFT)
}

func TestCallerDisconnectEndsEngineCall(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	resp, in := r.stream(w.good.text)
	s.words <- "a"
	require.Equal(t, "a", event(t, in))
	require.NoError(t, resp.Body.Close())
	<-s.gone
	require.Equal(t, "client_closed", r.rows(1)[0].Outcome)
}

func TestCallerDisconnectBeforeHead(t *testing.T) {
	t.Parallel()
	came, gone := make(chan struct{}), make(chan struct{})
	r, w := open(t), newDeploymentStates(t, newEngine(t, func(e *engine, _ net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); ok {
			close(came)
			_, _ = in.ReadByte()
			close(gone)
		}
	}))
	r.ready(w.deployments()...)
	ctx, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		resp, err := r.server.Client().Do(r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}").WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-came
	leave()
	require.Error(t, <-failed)
	<-gone
	got := r.rows(1)[0]
	require.Equal(t, "client_closed", got.Outcome)
	require.Equal(t, int32(499), got.Status)
}

func TestRevocationCutsOpenCallsBeforeAck(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	keeps := newToken(t, "keeps")
	r.ready(served(deploymentA, list(w.good, keeps), w.e))
	const streams = 8
	var cut []*bufio.Reader
	for range streams {
		_, in := r.stream(w.good.text)
		cut = append(cut, in)
	}
	_, kept := r.stream(keeps.text)
	require.Equal(t, streams+1, len(s.began))

	epoch := r.registry.push(served(deploymentA, list(keeps), w.e))
	r.registry.await(t, epoch)
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 401, "token_invalid")
	for _, in := range cut {
		_, err := io.ReadAll(in)
		require.Error(t, err, "a cut stream must not end cleanly")
	}
	for range streams {
		<-s.gone
	}
	s.words <- "still here"
	require.Equal(t, "still here", event(t, kept))
	close(s.words)
	_, err := io.ReadAll(kept)
	require.NoError(t, err)
	outcomes := map[string]int{}
	for _, got := range r.rows(streams + 1) {
		outcomes[got.Token+" "+got.Outcome]++
	}
	require.Equal(t, map[string]int{"good revoked": streams, "keeps ok": 1}, outcomes)
}

func TestRevocationEndsCallWaitingForHead(t *testing.T) {
	t.Parallel()
	came := make(chan struct{})
	r, w := open(t), newDeploymentStates(t, newEngine(t, func(e *engine, _ net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); ok {
			close(came)
			_, _ = in.ReadByte()
		}
	}))
	r.ready(w.deployments()...)
	response := make(chan reply, 1)
	go func() { response <- r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}") }()
	<-came
	r.registry.await(t, r.registry.push(served(deploymentA, nil, w.e)))
	refused(t, <-response, 401, "token_invalid")
	require.Equal(t, "revoked", r.rows(1)[0].Outcome)
}

func TestRevocationNotBlockedByStalledReader(t *testing.T) {
	t.Parallel()
	part := strings.Repeat("x", 64<<10)
	full := make(chan struct{})
	flood := func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); !ok {
			return
		}
		_, _ = io.WriteString(c, sse)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(part), part); err != nil {
				close(full)
				_, _ = in.ReadByte()
				return
			}
		}
	}
	r, w := open(t), newDeploymentStates(t, newEngine(t, flood))
	r.ready(w.deployments()...)
	_, in := r.stream(w.good.text)
	_, err := in.ReadByte() // read no more, so that all buffers fill up
	require.NoError(t, err)
	<-full
	r.registry.await(t, r.registry.push(served(deploymentA, nil, w.e)))
	require.Equal(t, "revoked", r.rows(1)[0].Outcome)
}

func TestRevocationNotBlockedByMissingBody(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("")))
	r.ready(w.deployments()...)
	for i, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", r.server.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = io.WriteString(c, "POST /inference/"+deploymentA+chat+" HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nAuthorization: Bearer "+
			w.good.text+"\r\n"+length+"\r\n\r\n")
		require.NoError(t, err)
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "the server must be waiting for the body")
		r.registry.await(t, r.registry.push(served(deploymentA, nil, w.e)))
		_, _ = in.ReadString('\n')
		line, err = in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 401 Unauthorized\r\n", line)
		require.Equal(t, "revoked", r.rows(i + 1)[i].Outcome)
		r.registry.await(t, r.registry.push(w.deployments()...))
	}
}

func TestRegistryUnavailableWithinLease(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "served"))))
	r.ready(w.deployments()...)
	var opened int
	r.registry.change(func() { r.registry.down, opened = true, r.registry.opened })
	r.registry.awaitThat(t, func() bool { return r.registry.opened > opened+1 })
	require.Equal(t, "served", text(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")))
	// When the registry is available again, new snapshots are applied.
	r.registry.change(func() { r.registry.down = false })
	r.registry.await(t, r.registry.push(served(deploymentA, nil, w.e)))
	refused(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, ""), 401, "token_invalid")
}

func TestExpiredLeaseCutsAndRefusesCalls(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r, w := open(t), newDeploymentStates(t, newEngine(t, s.play))
	r.ready(w.deployments()...)
	_, in := r.stream(w.good.text)
	s.words <- "a"
	require.Equal(t, "a", event(t, in))
	r.registry.change(func() { r.registry.lease = time.Nanosecond })
	_, err := io.ReadAll(in)
	require.Error(t, err, "open calls must end with the lease, because their token may have been revoked")
	require.Equal(t, "lease_over", r.rows(1)[0].Outcome)
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 503, "lease_over")
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, "", "{}"), 503, "lease_over")
}

func TestIdleTimeouts(t *testing.T) {
	t.Parallel()
	short := func(c *inference.Config) { c.Idle, c.EngineIdle = 2*time.Second, 2*time.Second }
	t.Run("engine pauses", func(t *testing.T) {
		t.Parallel()
		s := newWordStream()
		r, w := open(t, short), newDeploymentStates(t, newEngine(t, s.play))
		r.ready(w.deployments()...)
		_, in := r.stream(w.good.text)
		body, err := io.ReadAll(in)
		require.Error(t, err)
		require.Equal(t, strings.NewReplacer(
			"the connection to the engine was lost", "the engine did not send the rest of its response in time", "engine_lost", "engine_timeout",
		).Replace(lost), string(body))
		require.Equal(t, "engine_timeout", r.rows(1)[0].Outcome)
	})
	t.Run("caller does not send", func(t *testing.T) {
		t.Parallel()
		r, w := open(t, short), newDeploymentStates(t, newEngine(t, always("")))
		r.ready(w.deployments()...)
		resp := raw(t, r, "POST /inference/"+deploymentA+chat+" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+w.good.text+
			"\r\nContent-Length: 10\r\n\r\nabc")
		require.Equal(t, 400, resp.StatusCode)
	})
}
