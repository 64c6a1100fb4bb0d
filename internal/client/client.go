// Package client calls the REST API as any external client would: JSON over HTTP, bearer credentials, signed uploads
// and Server-Sent Events. The command line, the demo and the test suites use only this client.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// maxBody is the maximum number of bytes that are read from a response body.
	maxBody = 32 << 20
	// maxUnasked is the largest upload, in bytes, that is sent without waiting for the server's consent. A store that
	// refuses a larger one would close the connection while the body is being sent, and its response could be lost.
	maxUnasked = 1 << 20
)

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
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Transport: transport}}
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

// Base returns the URL of the installation.
func (c *Client) Base() string { return c.base }

// Error is a response with a status outside 200 to 299.
type Error struct {
	Status int
	Code   string
	// Detail is the text of `detail`, its JSON if it is not a string, or the whole body if there is no `detail`.
	Detail string
	Body   []byte
	// RequestID is the id of the request, which the logs of the server have too.
	RequestID string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// UnreachableError reports that a request got no response.
type UnreachableError struct {
	// Base is the URL of the installation.
	Base string
	// Request names the request: its method and path, or what it is for.
	Request string
	Err     error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	cause := e.Err
	if u, ok := errors.AsType[*url.Error](cause); ok {
		cause = u.Err // it repeats the whole address, with its query
	}
	return fmt.Sprintf("cannot reach %s (%s): %s", e.Base, e.Request, cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

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
			return nil, fmt.Errorf("encode the body of %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("create the request %s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	return c.send(req)
}

func (c *Client) send(req *http.Request) (*Response, error) {
	if !c.token.IsZero() && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &UnreachableError{Base: c.base, Request: req.Method + " " + req.URL.Path, Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the response to %s %s: %w", req.Method, req.URL.Path, err)
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
		return fmt.Errorf("decode the response to %s %s: %w", method, path, err)
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

// Err returns the response as an *Error, whatever its status.
func (a *Response) Err() *Error {
	e := &Error{Status: a.Status, Body: a.Body, Detail: strings.TrimSpace(string(a.Body)), RequestID: a.Header.Get("X-Request-Id")}
	var body struct {
		Detail json.RawMessage `json:"detail"`
		Code   string          `json:"code"`
	}
	if json.Unmarshal(a.Body, &body) != nil || len(body.Detail) == 0 {
		return e
	}
	e.Code, e.Detail = body.Code, string(body.Detail)
	var text string
	if json.Unmarshal(body.Detail, &text) == nil {
		e.Detail = text
	}
	return e
}

// Upload sends bytes to a signed URL with the method and the headers that the URL was signed for.
func (c *Client) Upload(ctx context.Context, method, target string, headers map[string]string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return c.UploadFrom(ctx, method, target, headers, bytes.NewReader(body), int64(len(body)))
}

// UploadFrom sends size bytes of a reader as Upload does, for as long as they need.
func (c *Client) UploadFrom(ctx context.Context, method, target string, headers map[string]string, body io.Reader, size int64) error {
	if size == 0 {
		body = http.NoBody // otherwise net/http would send a body of unknown length
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return fmt.Errorf("create the upload request: %w", err)
	}
	req.ContentLength = size
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	if size > maxUnasked {
		req.Header.Set("Expect", "100-continue") // net/http sends the body after a second if there is no response
	}
	// The signed URL is the credential: the bearer token must not reach the object store.
	resp, err := c.http.Do(req)
	if err != nil {
		return &UnreachableError{Base: req.URL.Scheme + "://" + req.URL.Host, Request: "upload", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return (&Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).Err()
	}
	return nil
}

// Stream copies the body of a successful response to w, whatever its size. A response that breaks off is an error.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, w io.Writer) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("create the request GET %s: %w", path, err)
	}
	if !c.token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &UnreachableError{Base: c.base, Request: "GET " + req.URL.Path, Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		return (&Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).Err()
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the response to GET %s: %w", req.URL.Path, err)
	}
	return nil
}
