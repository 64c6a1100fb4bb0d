package exchange

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Field is a header field as the golden states it.
type Field struct{ Name, Value string }

// Request is a request as the golden states it.
type Request struct {
	Method, Target string
	Header         []Field
	Body           string
	// Made describes a body to generate: zeros N, nested N, file NAME or hex DIGITS.
	Made []string
	// Length is `none` for a chunked body, `spelled` for a body that contains its own chunk framing, or the
	// Content-Length to send. If empty, the Content-Length is the length of the body.
	Length string
}

// Received is a response as it was received.
type Received struct {
	Status int
	Header http.Header
	Body   []byte
}

// rawRequest is a request with all variables filled in.
type rawRequest struct {
	method, target string
	header         []Field
	body           []byte
	length         string
}

// bytes encodes the request without correcting it, as a malicious client could send it.
func (w rawRequest) bytes(host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", w.method, w.target)
	if !w.has("Host") {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	if !w.has("Connection") {
		b.WriteString("Connection: close\r\n")
	}
	for _, f := range w.header {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	switch {
	case w.length == "none":
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		if len(w.body) > 0 {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(w.body), w.body)
		}
		b.WriteString("0\r\n\r\n")
		return b.Bytes()
	case w.length == "spelled":
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%s\r\n", w.body)
		return b.Bytes()
	case w.length != "":
		fmt.Fprintf(&b, "Content-Length: %s\r\n", w.length)
	case len(w.body) > 0 || w.method == http.MethodPost || w.method == http.MethodPut || w.method == http.MethodPatch:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(w.body))
	}
	b.WriteString("\r\n")
	b.Write(w.body)
	return b.Bytes()
}

func (w rawRequest) has(name string) bool {
	for _, f := range w.header {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// send sends the request and reads the response. It reads an event stream until the function `enough` returns true or
// the stream ends.
func (w rawRequest) send(ctx context.Context, s Target, enough func(text []byte) bool) (Received, error) {
	base, err := url.Parse(s.URL)
	if err != nil {
		return Received{}, fmt.Errorf("parse the installation's URL: %w", err)
	}
	host := base.Host
	// A signed URL is absolute. Its host becomes the Host header, but the connection goes to the installation.
	if whole, err := url.Parse(w.target); err == nil && whole.Scheme == "http" && whole.Host != "" {
		host, w.target = whole.Host, w.target[len("http://")+len(whole.Host):]
	}
	dialer := &net.Dialer{}
	if s.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(s.From)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", base.Host)
	if err != nil {
		return Received{}, fmt.Errorf("connect to the installation: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(s.Timeout)); err != nil {
		return Received{}, fmt.Errorf("set a deadline: %w", err)
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = conn.Write(w.bytes(host)) // the server may respond and close the connection before it has read the complete request
	}()
	a, err := read(conn, w.method, enough)
	_ = conn.Close()
	<-wrote
	return a, err
}

func read(conn io.Reader, method string, enough func([]byte) bool) (Received, error) {
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return Received{}, fmt.Errorf("read the response: %w", err)
		}
		a := Received{Status: resp.StatusCode, Header: resp.Header}
		switch interim := resp.StatusCode < 200; {
		case interim && resp.StatusCode != http.StatusSwitchingProtocols:
			_ = resp.Body.Close()
			continue
		case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
			a.Body, err = prefix(resp.Body, enough)
		case !interim:
			a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
		}
		// Leave the body open, because closing it would read the rest. send closes the connection.
		if err != nil {
			return a, fmt.Errorf("read the body: %w", err)
		}
		return a, nil
	}
}

// maxBody is the maximum number of bytes read from a response, and of bytes in a generated body.
const maxBody = 64 << 20

// prefix reads a stream until the function `enough` returns true or the stream ends.
func prefix(body io.Reader, enough func([]byte) bool) ([]byte, error) {
	var all []byte
	chunk := make([]byte, 4096)
	for {
		n, err := body.Read(chunk)
		all = append(all, chunk[:n]...)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case n > 0 && enough(all):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("%w after %q", err, all)
		}
	}
}

// made generates the body that the words of an @body directive describe.
func (g *Golden) made(words []string, fill func(string) (string, error)) ([]byte, error) {
	if len(words) != 2 {
		return nil, fmt.Errorf("@body must have two words, got %q", words)
	}
	switch words[0] {
	case "zeros":
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 0 || n > maxBody {
			return nil, fmt.Errorf("%q is not a valid size", words[1])
		}
		return bytes.Repeat([]byte("0"), n), nil
	case "file":
		data, ok := g.files[words[1]]
		if !ok {
			return nil, fmt.Errorf("section %s is missing", words[1])
		}
		text, err := fill(strings.TrimRight(string(data), "\n"))
		return []byte(text), err
	case "nested":
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 0 || n > maxBody/2 {
			return nil, fmt.Errorf("%q is not a valid depth", words[1])
		}
		return append(bytes.Repeat([]byte("["), n), bytes.Repeat([]byte("]"), n)...), nil
	case "hex":
		raw, err := hex.DecodeString(words[1])
		if err != nil {
			return nil, fmt.Errorf("@body: %w", err)
		}
		return raw, nil
	default:
		return nil, fmt.Errorf("unknown kind of @body %s", words[0])
	}
}
