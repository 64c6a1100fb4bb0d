package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Stream copies the body of a successful response to w, whatever its size. A response that breaks off is an
// UnreachableError; an error of w is returned as it is.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, w io.Writer) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(c.base, describe(req), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		return (&Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).Err()
	}
	_, err = io.Copy(w, brokenBody{c.base, describe(req), resp.Body})
	return err
}

// brokenBody marks the errors of reading a response, in contrast to those of the writer.
type brokenBody struct {
	base, request string
	io.Reader
}

// Read implements io.Reader.
func (b brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &UnreachableError{Base: b.base, Request: b.request, Err: fmt.Errorf("the response broke off: %w", err)}
	}
	return n, err
}
