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
	// dialTime limits the TCP connect and the TLS handshake separately. callTime limits a whole call.
	dialTime = 5 * time.Second
	callTime = 20 * time.Second
	// maxResponse is the maximum size of a response body, in bytes.
	maxResponse = 1 << 20
)

// Client returns an HTTP client for calls to models. It does not follow redirects, because only the admin's base URL
// may decide which server is called.
func Client(networks egress.Networks) *http.Client {
	return follow(egress.New(egress.Options{Networks: networks, Dial: dialTime, Timeout: callTime, Body: maxResponse}))
}

// follow makes a client return redirects instead of following them.
func follow(c *http.Client) *http.Client {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Caller calls the model.
type Caller struct {
	Client *http.Client
	Rand   io.Reader
}

// response is a response of the upstream. Its body has at most maxResponse bytes.
type response struct {
	status   int
	typ      string
	location string
	body     []byte
}

// stage records how far a call has come, so that its error can name the step that failed.
type stage struct{ atomic.Value }

func (s *stage) trace(ctx context.Context) context.Context {
	s.Store("calling")
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { s.Store("resolving the host") },
		ConnectStart:         func(string, string) { s.Store("connecting") },
		TLSHandshakeStart:    func() { s.Store("performing the TLS handshake") },
		GotConn:              func(httptrace.GotConnInfo) { s.Store("waiting for the response") },
		GotFirstResponseByte: func() { s.Store("reading the response") },
	})
}

// failed returns an error that names the stage at which err occurred.
func (s *stage) failed(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // drop the method and the address, which the result already contains
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && errors.Is(err, egress.ErrRefused) {
		err = dial.Err // the refusal already contains the address
	}
	var slow net.Error
	switch {
	case errors.Is(err, egress.ErrTooLarge):
		return fmt.Errorf("the response is larger than %d bytes", maxResponse)
	case errors.Is(err, egress.ErrRefused):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%v took too long", s.Load())
	default:
		return fmt.Errorf("%v: %w", s.Load(), err)
	}
}

// post sends body as JSON to the endpoint and returns the response.
func (c Caller) post(ctx context.Context, s Settings, endpoint string, body any) (response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return response{}, fmt.Errorf("encode the request: %w", err)
	}
	var at stage
	r, err := http.NewRequestWithContext(at.trace(ctx), http.MethodPost, endpoint, bytes.NewReader(raw))
	if err != nil {
		return response{}, fmt.Errorf("create the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.Key.Reveal())
	r.Header.Set("User-Agent", "signalbox")
	r.Close = true // otherwise net/http logs data that the upstream sends after its response
	resp, err := c.Client.Do(r)
	if err != nil {
		return response{}, at.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written, so closing loses nothing
	out := response{status: resp.StatusCode, typ: resp.Header.Get("Content-Type"), location: resp.Header.Get("Location")}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return response{}, at.failed(err)
	}
	return out, nil
}

// endpointOf returns the chat completions address for a base URL.
func endpointOf(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", errors.New("base URL: not a valid URL")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("base URL: must not have a query or a fragment")
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return "", errors.New("base URL: must not end in /chat/completions, which is appended automatically")
	}
	if err := egress.CheckURL(u); err != nil {
		return "", fmt.Errorf("base URL: %w", err)
	}
	return strings.TrimSuffix(u.String(), "/") + "/chat/completions", nil
}
