package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// link is a connection that is used for one call after the other. It reads no more of a response than it needs, because the
// load generator shares the cores with what it measures.
type link struct {
	net.Conn

	in   *bufio.Reader
	last bool // the server closes the connection after the last response
}

func newLink(conn net.Conn) *link { return &link{Conn: conn, in: bufio.NewReader(conn)} }

// alive reports whether the other side has not closed the connection, as load balancers check it before they reuse one.
func (k *link) alive() bool {
	tcp, ok := k.Conn.(*net.TCPConn)
	if !ok || k.last {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(peeked, syscall.EAGAIN)
}

// exchange sends a request and reads the response.
func (k *link) exchange(request []byte) (status int, err error) {
	if err := k.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return 0, err
	}
	if _, err := k.Write(request); err != nil {
		return 0, err
	}
	status, err = k.response()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return status, err
}

// response reads a response, whose body must have a Content-Length.
func (k *link) response() (status int, err error) {
	line, err := k.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	const version, digits = "HTTP/1.1 ", 3
	if len(line) < len(version)+digits || string(line[:len(version)]) != version {
		return 0, fmt.Errorf("the response does not begin with a status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[len(version) : len(version)+digits])); err != nil {
		return 0, fmt.Errorf("the status of the response: %w", err)
	}
	length := -1
	for {
		if line, err = k.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, isField := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		switch value = bytes.TrimSpace(value); {
		case !isField && length < 0:
			return 0, errors.New("the response has no Content-Length")
		case !isField:
			_, err = k.in.Discard(length)
			return status, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("the length of the response: %w", err)
			}
		case bytes.EqualFold(name, []byte("Connection")):
			k.last = bytes.EqualFold(value, []byte("close"))
		}
	}
}

// requestTo returns the bytes of a POST request.
func requestTo(path, token, body string) []byte {
	return append(headTo(path, token, len(body)), body...)
}

// headTo returns the head of a POST request.
func headTo(path, token string, length int) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, token, length)
}

func TestLink_exchange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent   string
		status int
		last   bool
		err    string
	}{
		"ok":        {sent: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", status: http.StatusOK},
		"last":      {sent: "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status: http.StatusServiceUnavailable, last: true},
		"cut":       {sent: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", err: "unexpected EOF"},
		"nothing":   {err: "unexpected EOF"},
		"no length": {sent: "HTTP/1.1 200 OK\r\n\r\nok", err: "no Content-Length"},
		"no status": {sent: "rubbish\r\n\r\n", err: "status line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			request := requestTo("/path", "token", "{}")
			received := make(chan []byte, 1)
			go func() {
				got := make([]byte, len(request))
				_, _ = io.ReadFull(theirs, got)
				received <- got
				_, _ = theirs.Write([]byte(c.sent))
				_ = theirs.Close()
			}()
			k := newLink(ours)
			status, err := k.exchange(request)
			require.Equal(t, request, <-received)
			require.NoError(t, k.Close())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.status, status)
			require.Equal(t, c.last, k.last)
		})
	}
}
