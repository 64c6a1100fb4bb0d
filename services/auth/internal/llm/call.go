package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/egress"
)

const (
	// dialTime is how long the way to the address and the TLS handshake may take each, callTime a whole call.
	dialTime = 5 * time.Second
	callTime = 20 * time.Second
	// maxAnswer is the largest answer that is read.
	maxAnswer = 1 << 20
)

// Client calls models. It follows no redirect: what a base URL leads to is the admin's word, not the upstream's.
func Client(networks egress.Networks) *http.Client {
	return follow(egress.New(egress.Options{Networks: networks, Dial: dialTime, Timeout: callTime, Body: maxAnswer}))
}

// follow makes a client answer redirects as they are.
func follow(c *http.Client) *http.Client {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Caller calls the model.
type Caller struct {
	Client *http.Client
	Rand   io.Reader
}

// answer is what the upstream said, within its bounds.
type answer struct {
	status   int
	typ      string
	location string
	body     []byte
}

// stage is how far a call has come, for the words of its failure.
type stage struct{ atomic.Value }

func (s *stage) trace(ctx context.Context) context.Context {
	s.Store("calling")
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { s.Store("resolving the host") },
		ConnectStart:         func(string, string) { s.Store("connecting") },
		TLSHandshakeStart:    func() { s.Store("the TLS handshake") },
		GotConn:              func(httptrace.GotConnInfo) { s.Store("waiting for the answer") },
		GotFirstResponseByte: func() { s.Store("reading the answer") },
	})
}

// failed words an error with the stage at which it came.
func (s *stage) failed(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // without the method and the address, which the result tells already
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && errors.Is(err, egress.ErrRefused) {
		err = dial.Err // the address is in the words of the refusal
	}
	var slow net.Error
	switch {
	case errors.Is(err, egress.ErrTooLarge):
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case errors.Is(err, egress.ErrRefused):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%v took too long", s.Load())
	default:
		return fmt.Errorf("%v: %w", s.Load(), err)
	}
}

// post sends one request.
func (c Caller) post(ctx context.Context, s Settings, endpoint string, body any) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, fmt.Errorf("write the request: %w", err)
	}
	var at stage
	r, err := http.NewRequestWithContext(at.trace(ctx), http.MethodPost, endpoint, bytes.NewReader(raw))
	if err != nil {
		return answer{}, fmt.Errorf("write the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.Key.Reveal())
	r.Header.Set("User-Agent", "signalbox")
	r.Close = true // what an upstream sends behind its answer is read by nobody: net/http would log it
	resp, err := c.Client.Do(r)
	if err != nil {
		return answer{}, at.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	out := answer{status: resp.StatusCode, typ: resp.Header.Get("Content-Type"), location: resp.Header.Get("Location")}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return answer{}, at.failed(err)
	}
	return out, nil
}

// endpointOf is the address of chat completions below a base URL.
func endpointOf(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", errors.New("base URL: it cannot be read")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("base URL: it has a query or a fragment")
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return "", errors.New("base URL: leave /chat/completions out, it is added")
	}
	if err := egress.CheckURL(u); err != nil {
		return "", fmt.Errorf("base URL: %w", err)
	}
	return strings.TrimSuffix(u.String(), "/") + "/chat/completions", nil
}
