package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

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
		return &UnreachableError{Base: c.base, Request: "GET " + req.URL.Path, Err: err}
	}
	return nil
}
