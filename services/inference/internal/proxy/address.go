package proxy

import (
	"fmt"
	"net"
	"net/url"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/services/inference/internal/lease"
	"github.com/signalbox-dev/signalbox/services/inference/internal/relay"
)

// engineOf is where a replica answers: http on this host, https behind its node's own port, which must
// prove to be that node. An https address without a node could be anyone's.
func engineOf(r *lease.Replica) (relay.Engine, error) {
	u, err := url.Parse(r.Address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return relay.Engine{}, unusable("it is none of HTTP")
	}
	switch u.Scheme {
	case "http":
		return relay.Engine{Addr: dialAddress(u, "80")}, nil
	case "https":
		node, err := pki.NodeName(r.NodeID)
		if err != nil {
			return relay.Engine{}, unusable(err.Error())
		}
		return relay.Engine{Addr: dialAddress(u, "443"), Node: node}, nil
	default:
		return relay.Engine{}, unusable("it is none of HTTP")
	}
}

func unusable(why string) error {
	return fmt.Errorf("%w: its address cannot be used: %s", relay.ErrUnreachable, why)
}

// dialAddress is the host:port of an address; one without a port has its scheme's.
func dialAddress(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}
