package relay

import (
	"context"
	"net/http"
)

// Until is a request whose context ends with stop: where whoever asks may wait for long, and the process that it
// waits at is to end. The caller calls what it answers.
func Until(r *http.Request, stop <-chan struct{}) (*http.Request, context.CancelFunc) {
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
