package reverseproxy

import (
	"context"
	"net/http"
)

// WithStop returns a copy of r whose context also ends when stop is closed. It is for long polls, which must not delay
// the end of the process. The caller must call the returned function when the request has ended.
func WithStop(r *http.Request, stop <-chan struct{}) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.WithContext(ctx), cancel
}
