package gateway

import (
	"strings"

	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// Relay implements httprelay.Relay. It gives calls to engines to inference if that runs in this process, after the same
// checks as ServeHTTP. It declines all other requests, those that ServeHTTP refuses, and those whose response must end the
// connection.
func (g *Gateway) Relay(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	path, _, _ := strings.Cut(r.Target, "?")
	if g.relay == nil || g.leaving.Load() || !enginepath.Under(path) || !g.hosts.Allows(r.Host) || !g.hold.Enter() {
		return httprelay.Declined
	}
	defer g.hold.Leave()
	return g.relay.Relay(c, r)
}
