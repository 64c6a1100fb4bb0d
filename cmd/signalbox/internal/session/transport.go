package session

import (
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// transport names this program in each request, and prints each request if --verbose is given: its method, path,
// status and time. Headers and bodies, which can contain secrets, are not printed; nor are queries and tokens of links.
type transport struct {
	s    *Session
	next http.RoundTripper
}

func (s *Session) transport() http.RoundTripper {
	next := s.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{s: s, next: next}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", "signalbox-cli/"+t.s.Version)
	began := t.s.Clock.Now()
	resp, err := t.next.RoundTrip(out)
	took := clock.Since(t.s.Clock, began).Round(time.Millisecond)
	path := client.PlainPath(req.URL.Path)
	switch {
	case t.s.Verbose == 0:
	case err != nil:
		t.s.Detail("request", "method", req.Method, "path", path, "error", err, "took", took)
	default:
		t.s.Detail("request", "method", req.Method, "path", path, "status", resp.StatusCode, "took", took,
			"request_id", resp.Header.Get("X-Request-Id"))
	}
	return resp, err
}
