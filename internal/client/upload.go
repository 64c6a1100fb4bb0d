package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxUnasked is the largest upload, in bytes, that is sent without waiting for the server's consent. A store that
// refuses a larger one would close the connection while the body is being sent, and its response could be lost.
const maxUnasked = 1 << 20

// Upload sends bytes to a signed URL with the method and the headers that the URL was signed for.
func (c *Client) Upload(ctx context.Context, method, target string, headers map[string]string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	req, err := uploadRequest(ctx, method, target, headers, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return err
	}
	return c.sendUpload(req, func() error { return nil })
}

// UploadFrom sends size bytes of a reader as Upload does, for as long as they need. It does not read after it has
// returned. A body that cannot be read, or that has another size, is not an UnreachableError, because a repeat does not
// help.
func (c *Client) UploadFrom(ctx context.Context, method, target string, headers map[string]string, body io.Reader, size int64) error {
	guarded := &uploadBody{from: body, left: size}
	defer guarded.stop()
	req, err := uploadRequest(ctx, method, target, headers, guarded, size)
	if err != nil {
		return err
	}
	return c.sendUpload(req, guarded.failure)
}

func uploadRequest(ctx context.Context, method, target string, headers map[string]string, body io.Reader, size int64) (*http.Request, error) {
	if size == 0 {
		body = http.NoBody // otherwise net/http would send a body of unknown length
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("create the upload request: %w", withoutAddress(err))
	}
	req.ContentLength = size
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	if size > maxUnasked {
		req.Header.Set("Expect", "100-continue") // net/http sends the body after a second if there is no response
	}
	return req, nil
}

// sendUpload sends an upload. The signed URL is the credential: the bearer token must not reach the object store. Failure
// returns the error of the body.
func (c *Client) sendUpload(req *http.Request, failure func() error) error {
	resp, err := c.http.Do(req)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if failed := failure(); failed != nil {
		return failed
	}
	if err != nil {
		return unreachable(Origin(req.URL), "upload", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return (&Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).StoreErr()
	}
	return nil
}

// errSize reports that a body is shorter than its stated size.
var errSize = errors.New("it has fewer bytes than before; do not change it during an upload")

// uploadBody is the body of an upload. It keeps the error of its source apart from those of the connection, and ends the
// reading by net/http, which can continue after a response.
type uploadBody struct {
	mu      sync.Mutex
	from    io.Reader
	left    int64
	stopped bool
	err     error
}

// Read implements io.Reader.
func (b *uploadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = errSize
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = fmt.Errorf("read what is uploaded: %w", err)
	}
	return n, err
}

func (b *uploadBody) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
}

func (b *uploadBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
