package proxy

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

// Targets returns the engines of the deployments that the lease allows to serve.
func Targets(lease *routing.Lease) []engineclient.Target {
	if !lease.Valid() {
		return nil
	}
	var all []engineclient.Target
	lease.Each(func(d *routing.Deployment) {
		if d.Promoted == nil || !d.Promoted.Ready {
			return
		}
		for _, r := range d.Promoted.Replicas {
			to, err := engineOf(r)
			if err != nil {
				continue // calls skip this replica too
			}
			all = append(all, engineclient.Target{
				Engine: to, RevisionID: d.Promoted.ID, ReplicaID: r.ID, Address: r.Address, APIKey: r.APIKey,
				Waits: engineclient.Waits{FirstByte: r.FirstByte, Idle: r.Idle},
				Task:  d.Promoted.Task, Model: d.Promoted.Model,
			})
		}
	})
	return all
}

// engineOf returns how to reach a replica: over http on this host, or over https through the port of its node, which
// must prove its identity. It returns an error for an https address without a node, because any host could respond
// there.
func engineOf(r *routing.Replica) (engineclient.Engine, error) {
	if addr, ok := strings.CutPrefix(r.Address, "http://"); ok && isHostPort(addr) {
		return engineclient.Engine{Addr: addr}, nil
	}
	u, err := url.Parse(r.Address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return engineclient.Engine{}, unusable("not an http or https URL")
	}
	switch u.Scheme {
	case "http":
		return engineclient.Engine{Addr: dialAddress(u, "80")}, nil
	case "https":
		node, err := pki.NodeName(r.NodeID)
		if err != nil {
			return engineclient.Engine{}, unusable(err.Error())
		}
		return engineclient.Engine{Addr: dialAddress(u, "443"), Node: node}, nil
	default:
		return engineclient.Engine{}, unusable("not an http or https URL")
	}
}

// isHostPort reports whether an address is an IPv4 address or a name, with a port, and nothing else. Most are, and need not
// be parsed for each call.
func isHostPort(addr string) bool {
	host, port, _ := strings.Cut(addr, ":")
	return host != "" && port != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") == "" && strings.Trim(port, "0123456789") == ""
}

func unusable(why string) error {
	return fmt.Errorf("%w: invalid address: %s", engineclient.ErrUnreachable, why)
}

// dialAddress returns the host:port of an address. If the address has no port, the given port is used.
func dialAddress(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}
