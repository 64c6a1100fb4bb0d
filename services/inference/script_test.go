package inference_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// engine is a raw TCP server that runs a script on each connection.
type engine struct {
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns int
	open  map[net.Conn]bool
	heads []string
	offer string // the subprotocols of the last WebSocket handshake
}

// script handles one connection, which is closed when it returns.
type script func(e *engine, c net.Conn, in *bufio.Reader)

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

func newEngine(t *testing.T, play script) *engine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &engine{addr: l.Addr().String(), listener: l, open: map[net.Conn]bool{}}
	e.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns++
			e.open[c] = true
			e.mu.Unlock()
			e.wg.Go(func() {
				defer func() { _ = c.Close() }()
				play(e, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *engine) stop() {
	_ = e.listener.Close()
	e.mu.Lock()
	for c := range e.open {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// connections returns how many connections were opened so far.
func (e *engine) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conns
}

// offered returns the subprotocols of the last WebSocket handshake.
func (e *engine) offered() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.offer
}

// seen returns the request lines and headers of the received requests.
func (e *engine) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.heads...)
}

// read reads one request; ok is false if no complete, valid request arrived.
func (e *engine) read(in *bufio.Reader) (head string, body []byte, ok bool) {
	// Like a real engine, end a connection that begins with a TLS handshake. ReadString could wait forever for the
	// end of a line.
	if first, err := in.Peek(1); err != nil || first[0] == tlsHandshake {
		return "", nil, false
	}
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", nil, false
		}
		b.WriteString(line)
		if line == "\r\n" {
			break
		}
	}
	head = b.String()
	e.mu.Lock()
	e.heads = append(e.heads, head)
	e.mu.Unlock()
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), in)))
	if err != nil {
		return head, nil, false
	}
	body, err = io.ReadAll(r.Body)
	return head, body, err == nil
}

// always returns a script that responds to every request with the same bytes.
func always(answer string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			if _, _, ok := e.read(in); !ok {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// okJSON is a response body with all fields that are recorded.
const okJSON = `{"model":"tiny","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`

// httpResponse returns the bytes of a response.
func httpResponse(status, contentType, body string, headers ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	if contentType != "" {
		b.WriteString("Content-Type: " + contentType + "\r\n")
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	return b.String()
}
