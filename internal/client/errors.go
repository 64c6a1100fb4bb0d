package client

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Error is a response with a status outside 200 to 299.
type Error struct {
	Status int
	Code   string
	// Detail is the text of `detail`, its JSON if it is not a string, the whole body if there is no `detail`, or the name of
	// the status if there is no body.
	Detail string
	Body   []byte
	// RequestID is the id of the request, which the logs of the server have too.
	RequestID string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// Err returns the response as an *Error, whatever its status.
func (a *Response) Err() *Error {
	e := &Error{Status: a.Status, Body: a.Body, Detail: strings.TrimSpace(string(a.Body)), RequestID: a.Header.Get("X-Request-Id")}
	var body struct {
		Detail json.RawMessage `json:"detail"`
		Code   string          `json:"code"`
	}
	if e.Detail == "" {
		e.Detail = strings.ToLower(http.StatusText(a.Status))
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

// StoreErr returns the response of an object store as an *Error. An S3 server describes an error in XML. That document can
// repeat the parts of the signature, so that only its code and its message are kept.
func (a *Response) StoreErr() *Error {
	e := a.Err()
	var s3 struct {
		XMLName xml.Name `xml:"Error"`
		Code    string   `xml:"Code"`
		Message string   `xml:"Message"`
	}
	if xml.Unmarshal(a.Body, &s3) == nil {
		e.Code, e.Detail, e.Body = s3.Code, strings.TrimSpace(s3.Code+" "+s3.Message), nil
	}
	return e
}

// UnreachableError reports that a request got no response, or only a part of one.
type UnreachableError struct {
	// Base is the URL of the installation.
	Base string
	// Request names the request: its method and path, or what it is for.
	Request string
	Err     error
}

// Error implements error. The text never contains a query or a signed URL.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s (%s): %s", e.Base, e.Request, withoutAddress(e.Err))
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RedirectError reports a response that leads a request with a credential or a body to another installation. The request
// is not repeated there.
type RedirectError struct{ From, To string }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to %s; credentials are sent to no other address, so use that one if you trust it", e.From, e.To)
}

// maxRedirects is the number of redirects that one request follows.
const maxRedirects = 10

// checkRedirect lets a request continue on the same installation. Only a GET without a credential may leave it.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if from, to := Origin(first.URL), Origin(req.URL); from != to && (first.Header.Get("Authorization") != "" || first.Method != http.MethodGet) {
		return &RedirectError{From: from, To: to}
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// Origin returns the scheme and the host of an address, with the port unless it is that of the scheme.
func Origin(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + port
}

// unreachable returns the error of a request that failed without a response.
func unreachable(base, request string, err error) error {
	if redirect, ok := errors.AsType[*RedirectError](err); ok {
		return redirect
	}
	return &UnreachableError{Base: base, Request: request, Err: err}
}

// describe names a request, without its query.
func describe(req *http.Request) string { return req.Method + " " + PlainPath(req.URL.Path) }

// PlainPath returns a path as it may be shown: without a query, and without the token of a shared link.
func PlainPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	const shared = "/api/share/"
	if token, ok := strings.CutPrefix(path, shared); ok {
		_, rest, more := strings.Cut(token, "/")
		path = shared + "[redacted]"
		if more {
			path += "/" + rest
		}
	}
	return path
}

// withoutAddress returns the cause of an error of net/http or net/url, whose own text repeats the whole address with its
// query.
func withoutAddress(err error) error {
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](err) {
		err = u.Err
	}
	return err
}
