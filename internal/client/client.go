// Package client calls the REST API as any external client would: JSON over HTTP, bearer credentials, signed uploads
// and Server-Sent Events. The command line, the demo and the test suites use only this client.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// maxBody is the maximum size of a response body, in bytes.
const maxBody = 32 << 20

// Client calls one installation with one credential.
type Client struct {
	base  string
	http  *http.Client
	token secret.String
	key   string
}

// New creates a client of the installation at the given base URL, without a credential. A nil transport means
// http.DefaultTransport.
func New(base string, transport http.RoundTripper) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Transport: transport, CheckRedirect: checkRedirect}}
}

// With returns a client that authenticates with the token.
func (c *Client) With(token secret.String) *Client {
	return &Client{base: c.base, http: c.http, token: token}
}

// WithIdempotencyKey returns a client whose requests carry an Idempotency-Key. If the response to a creation is lost,
// the request can be sent again without creating a second object.
func (c *Client) WithIdempotencyKey(key string) *Client {
	return &Client{base: c.base, http: c.http, token: c.token, key: key}
}

// CloseIdle closes the connections that no request uses. A server that stops waits for clients with such connections.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Base returns the URL of the installation.
func (c *Client) Base() string { return c.base }

// Response is a response whose body has been read.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call sends a request with the given body as JSON and reads the response, whatever its status. If the given body is
// nil, the request has no body.
func (c *Client) Call(ctx context.Context, method, path string, body any) (*Response, error) {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", method, PlainPath(path), err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := c.request(ctx, method, path, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	return c.send(req)
}

// request creates a request with the credential of the client. The path may have a query.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	if !strings.HasPrefix(path, "/") {
		// Any other first character could continue the name of the host.
		return nil, fmt.Errorf("create the request %s %s: a path begins with a slash", method, PlainPath(path))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("create the request %s %s: %w", method, PlainPath(path), withoutAddress(err))
	}
	if !c.token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return req, nil
}

func (c *Client) send(req *http.Request) (*Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(c.base, describe(req), err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, &UnreachableError{Base: c.base, Request: describe(req), Err: fmt.Errorf("the response broke off: %w", err)}
	}
	if len(raw) > maxBody {
		return nil, fmt.Errorf("the response to %s has more than %d MiB", describe(req), maxBody>>20)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}, nil
}

// Do sends a request and decodes a successful response into out, which may be nil. For any other status it
// returns an *Error.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	a, err := c.Call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if a.Status < 200 || a.Status > 299 {
		return a.Err()
	}
	if out == nil || len(a.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return fmt.Errorf("decode the response to %s %s: %w", method, PlainPath(path), err)
	}
	return nil
}

// Get calls Do with the method GET and a query.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.Do(ctx, http.MethodGet, path, nil, out)
}

// Post calls Do with the method POST.
func (c *Client) Post(ctx context.Context, path string, body, out any) error {
	return c.Do(ctx, http.MethodPost, path, body, out)
}
