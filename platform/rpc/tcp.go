package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// TCPConfig says where the services are and who this process is.
type TCPConfig struct {
	// Identity is this process's certificate and the CA.
	Identity pki.Source
	// Listen is the address for other services; ListenAgents the one for agents, empty for none.
	Listen       string
	ListenAgents string
	// Peers are the addresses of the services that this process calls, by name: host:port. A name
	// that resolves to several addresses is spread over all.
	Peers  map[string]string
	Client ClientOptions
}

// Wire is the network of processes on hosts.
type Wire struct{ cfg TCPConfig }

// TCP makes the network of one process.
func TCP(cfg TCPConfig) (*Wire, error) {
	if cfg.Identity == nil || cfg.Identity.Current() == nil {
		return nil, errors.New("rpc: a network over TCP needs a certificate")
	}
	for service, addr := range cfg.Peers {
		if _, err := pki.ServiceName(service); err != nil {
			return nil, err
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("address of %s: %w", service, err)
		}
	}
	return &Wire{cfg}, nil
}

// Listen opens the address for other services.
func (w *Wire) Listen(service string) (*Listener, error) {
	return w.listen(service, w.cfg.Listen, false)
}

// ListenAgents opens the address for agents.
func (w *Wire) ListenAgents(service string) (*Listener, error) {
	return w.listen(service, w.cfg.ListenAgents, true)
}

func (w *Wire) listen(service, addr string, agents bool) (*Listener, error) {
	if own := w.cfg.Identity.Current().Name; own != service {
		return nil, fmt.Errorf("%s cannot listen as %s", own, service)
	}
	if addr == "" {
		return nil, fmt.Errorf("no address for %s to listen on", busKey(service, agents))
	}
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen as %s: %w", service, err)
	}
	creds := credentials.NewTLS(pki.ServerTLS(w.cfg.Identity, allowed(agents)))
	shake := func(raw net.Conn) (net.Conn, *link, error) {
		secured, info, err := creds.ServerHandshake(raw)
		if err != nil {
			return nil, nil, err
		}
		l, err := linkOfTLS(info)
		return secured, l, err
	}
	return &Listener{Listener: inner, handshake: shake, agents: agents}, nil
}

// Dial makes a client of a service at its address.
func (w *Wire) Dial(service string) (*grpc.ClientConn, error) {
	addr, ok := w.cfg.Peers[service]
	if !ok {
		return nil, fmt.Errorf("no address of %s", service)
	}
	creds := credentials.NewTLS(pki.ClientTLS(w.cfg.Identity, service))
	return newClient("dns:///"+addr, w.cfg.Client, grpc.WithTransportCredentials(creds))
}

// ServerTLS is the TLS of an HTTP listener of this process for other services.
func (w *Wire) ServerTLS(services ...string) *tls.Config {
	return pki.ServerTLS(w.cfg.Identity, pki.Only(services...))
}

// ClientTLS is the TLS of an HTTP connection of this process to a service.
func (w *Wire) ClientTLS(service string) *tls.Config {
	return pki.ClientTLS(w.cfg.Identity, service)
}

func linkOfTLS(info credentials.AuthInfo) (*link, error) {
	t, ok := info.(credentials.TLSInfo)
	if !ok || len(t.State.PeerCertificates) == 0 {
		return nil, errors.New("rpc: no certificate")
	}
	name, err := pki.NameOf(t.State.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	return &link{kind: "tls", name: name}, nil
}
