package allinone

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// Agents configures the listener for agents on other hosts. jobsd has the same settings.
type Agents struct {
	Listen  conf.Listen
	Address string `env:"ADDRESS" doc:"host:port at which agents on other hosts reach SERVICE_JOBS_AGENT_LISTEN; if empty, the address of that listener"`
}

// Validate rejects addresses that agents could not dial now or after a restart.
func (a Agents) Validate() error {
	host, port, err := net.SplitHostPort(a.Address)
	n, notPort := strconv.ParseUint(port, 10, 16)
	_, listens, _ := net.SplitHostPort(a.Listen.Addr)
	switch {
	case listens == "0":
		return conf.Errorf("LISTEN", "must name a fixed port: a node keeps the address that it received when it joined")
	case a.Address == "" && a.Listen.Addr != "" && unspecified(a.Listen.Addr):
		return conf.Errorf("ADDRESS", "must be set: agents cannot dial %s", a.Listen.Addr)
	case a.Address == "":
		return nil
	case err != nil || host == "" || notPort != nil || n == 0:
		return conf.Errorf("ADDRESS", "must be host:port, got %q", a.Address)
	case a.Listen.Addr == "":
		return conf.Errorf("ADDRESS", "must not be set without SERVICE_JOBS_AGENT_LISTEN")
	}
	return nil
}

// remote reports whether agents on other hosts can use the settings: an address is set, and it is not a loopback
// address.
func (a Agents) remote() bool {
	addr := a.Address
	if addr == "" {
		addr = a.Listen.Addr
	}
	return addr != "" && !loopback(addr)
}

// unspecified reports whether addr means all addresses of its host. Other hosts cannot dial such an address.
func unspecified(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func loopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listenForAgents opens the listener for agents on other hosts, if one is configured. A client proves which
// node it is with a certificate of this installation's CA.
func (d *daemon) listenForAgents() error {
	addr := d.settings.Agents.Listen.Addr
	if addr == "" {
		return nil
	}
	identity, err := issue(d.keys.ca, jobs.Name, d.clock)
	if err != nil {
		return err
	}
	wire, err := rpc.TCP(rpc.TCPConfig{Identity: identity, ListenAgents: addr, Client: rpc.ClientOptions{Clock: d.clock}})
	if err != nil {
		return err
	}
	d.agents, err = wire.ListenAgents(jobs.Name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is in use by another process; choose another with SERVICE_JOBS_AGENT_LISTEN", addr)
	}
	return err
}

// agentAddress returns the address that agents on other hosts dial. It is empty if there is no listener for them.
func (d *daemon) agentAddress() string {
	switch {
	case d.agents == nil:
		return ""
	case d.settings.Agents.Address != "":
		return d.settings.Agents.Address
	default:
		return d.agents.Addr().String()
	}
}

// issued is the certificate with which a part of this process proves its identity to other hosts. It is kept
// in memory only, because the CA is in the same process, and is renewed in the last third of its life.
type issued struct {
	ca    *pki.CA
	name  string
	clock clock.Clock

	mu      sync.Mutex
	current *pki.Identity
}

func issue(ca *pki.CA, name string, clk clock.Clock) (*issued, error) {
	i := &issued{ca: ca, name: name, clock: clk}
	var err error
	i.current, err = i.next()
	return i, err
}

func (i *issued) next() (*pki.Identity, error) {
	pair, err := i.ca.IssueService(i.name, i.clock.Now(), pki.DefaultServiceLife)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of %s: %w", i.name, err)
	}
	return pki.Parse(pair.Cert, pair.Key, i.ca.CertPEM())
}

// Current implements pki.Source.
func (i *issued) Current() *pki.Identity {
	i.mu.Lock()
	defer i.mu.Unlock()
	if renew := i.current.NotAfter.Add(-pki.DefaultServiceLife / 3); !i.clock.Now().Before(renew) {
		// Issuing fails only if the CA has expired, in which case the current certificate is useless too.
		if next, err := i.next(); err == nil {
			i.current = next
		}
	}
	return i.current
}
