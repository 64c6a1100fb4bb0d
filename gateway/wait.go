package gateway

import (
	"context"
	"net/http"

	"github.com/signalbox-dev/signalbox/gateway/internal/match"
)

// untilStop is a request whose context ends with the event streams, where a training may wait in it for a
// signal; every other is left as it is.
func (g *Gateway) untilStop(r *http.Request, m *match.Match) (*http.Request, context.CancelFunc) {
	if r.Method != http.MethodGet || m.Handler != "ingest" {
		return r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-g.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.WithContext(ctx), cancel
}
