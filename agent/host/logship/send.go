package logship

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// result is the result of one request.
type result struct {
	status     int
	retryAfter time.Duration
	err        error
}

// final reports whether the server has accepted or rejected the range, so that it is not sent again.
func (a result) final() bool { return a.err == nil && (a.status/100 == 2 || a.refused()) }

func (a result) refused() bool {
	return a.status >= 300 && a.status < 500 &&
		a.status != http.StatusRequestTimeout && a.status != http.StatusTooManyRequests
}

const (
	sendTimeout   = 30 * time.Second
	maxRetryAfter = time.Minute
)

func (r *run) send(ctx context.Context, endpoint string, seq int64, body []byte) result {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	url := strings.TrimRight(endpoint, "/") + "/logs"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return result{err: fmt.Errorf("create the log request: %w", err)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.log.Token.Reveal())
	req.Header.Set("Idempotency-Key", r.log.Writer+":"+strconv.FormatInt(seq, 10))
	resp, err := r.client.Do(req)
	if err != nil {
		return result{err: fmt.Errorf("send the log range: %w", err)}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRaw))
	a := result{status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.retryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return a
}
