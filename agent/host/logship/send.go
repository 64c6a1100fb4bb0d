package logship

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// result is the result of one request. code is the code of an error.
type result struct {
	status     int
	code       string
	retryAfter time.Duration
	err        error
}

// final reports whether the server has accepted or rejected the range, so that it is not sent again.
func (a result) final() bool { return a.err == nil && (a.status/100 == 2 || a.refused()) }

func (a result) refused() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	case http.StatusBadRequest:
		return !a.incomplete()
	}
	return a.status >= 300 && a.status < 500
}

// incomplete reports whether the error is that the body did not arrive whole, for example because a connection on the way
// was slow. The server then does not refuse the range.
func (a result) incomplete() bool {
	switch a.code {
	case "body_cut", "body_incomplete", "body_timeout", "body_unreadable":
		return true
	}
	return false
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
	if odd := func(c rune) bool { return c < '!' || c > '~' }; r.log.Node != "" && len(r.log.Node) <= 255 && !strings.ContainsFunc(r.log.Node, odd) {
		req.Header.Set("X-Service-Node", r.log.Node)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return result{err: fmt.Errorf("send the log range: %w", err)}
	}
	defer func() { _ = resp.Body.Close() }()
	// If the body of an error cannot be read, its code is unknown.
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxRaw))
	var detail struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(raw, &detail)
	a := result{status: resp.StatusCode, code: detail.Code}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.retryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return a
}
