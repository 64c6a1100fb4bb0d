package single

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

// Agents says where agents of other hosts come in. jobsd has the same settings.
type Agents struct {
	Listen  conf.Listen
	Address string `env:"ADDRESS" doc:"host:port under which agents of other hosts reach SERVICE_JOBS_AGENT_LISTEN; the bound address where empty"`
}

// Validate names an address that no agent could dial, today or after a restart.
func (a Agents) Validate() error {
	host, port, err := net.SplitHostPort(a.Address)
	n, notPort := strconv.ParseUint(port, 10, 16)
	_, listens, _ := net.SplitHostPort(a.Listen.Addr)
	switch {
	case listens == "0":
		return conf.Faultf("LISTEN", "must name its port: a node keeps the address that it was told when it joined")
	case a.Address == "" && a.Listen.Addr != "" && unspecified(a.Listen.Addr):
		return conf.Faultf("ADDRESS", "must be set: agents cannot dial %s", a.Listen.Addr)
	case a.Address == "":
		return nil
	case err != nil || host == "" || notPort != nil || n == 0:
		return conf.Faultf("ADDRESS", "want host:port, got %q", a.Address)
	case a.Listen.Addr == "":
		return conf.Faultf("ADDRESS", "nobody listens there: set SERVICE_JOBS_AGENT_LISTEN too")
	}
	return nil
}

// remote tells that agents of other hosts are meant, and not those of this one.
func (a Agents) remote() bool {
	told := a.Address
	if told == "" {
		told = a.Listen.Addr
	}
	return told != "" && !loopback(told)
}

// unspecified tells that an address is every one of its host, which nobody can dial from elsewhere.
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

// listenForAgents takes the address for agents of other hosts, where there is one. Who comes in there has
// proved by a certificate of this installation's CA which node it is.
func (h *house) listenForAgents() error {
	addr := h.settings.Agents.Listen.Addr
	if addr == "" {
		return nil
	}
	identity, err := issue(h.keys.ca, jobs.Name, h.clock)
	if err != nil {
		return err
	}
	wire, err := rpc.TCP(rpc.TCPConfig{Identity: identity, ListenAgents: addr, Client: rpc.ClientOptions{Clock: h.clock}})
	if err != nil {
		return err
	}
	h.agents, err = wire.ListenAgents(jobs.Name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is in use by another process: choose one with SERVICE_JOBS_AGENT_LISTEN", addr)
	}
	return err
}

// agentAddress is what agents of other hosts are told to dial; empty where they have no way in.
func (h *house) agentAddress() string {
	switch {
	case h.agents == nil:
		return ""
	case h.settings.Agents.Address != "":
		return h.settings.Agents.Address
	default:
		return h.agents.Addr().String()
	}
}

// issued is what a part of this process proves itself with to other hosts. The CA is at hand, so it lives in
// memory only, and in the last third of its life another one takes its place.
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
		// Where it fails the CA has ended, and the last certificate with it.
		if next, err := i.next(); err == nil {
			i.current = next
		}
	}
	return i.current
}
