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

// TCPConfig holds the identity of this process and the addresses of the services.
type TCPConfig struct {
	// Identity provides the certificate of this process and the CA.
	Identity pki.Source
	// Listen is the address on which to listen for other services, and ListenAgents the one for agents. Empty means
	// that there is no such listener.
	Listen       string
	ListenAgents string
	// Peers holds the address (host:port) of each service that this process calls, by service name. If a host
	// resolves to several addresses, calls are balanced over them.
	Peers  map[string]string
	Client ClientOptions
}

// TCPNetwork is a Network over TCP with mutual TLS.
type TCPNetwork struct{ cfg TCPConfig }

// TCP returns the network of a process.
func TCP(cfg TCPConfig) (*TCPNetwork, error) {
	if cfg.Identity == nil || cfg.Identity.Current() == nil {
		return nil, errors.New("rpc: TCPConfig must have an Identity with a certificate")
	}
	for service, addr := range cfg.Peers {
		if _, err := pki.ServiceName(service); err != nil {
			return nil, err
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("parse the address of service %s: %w", service, err)
		}
	}
	return &TCPNetwork{cfg}, nil
}

// Listen implements Network.
func (w *TCPNetwork) Listen(service string) (*Listener, error) {
	return w.listen(service, w.cfg.Listen, false)
}

// ListenAgents implements Network.
func (w *TCPNetwork) ListenAgents(service string) (*Listener, error) {
	return w.listen(service, w.cfg.ListenAgents, true)
}

func (w *TCPNetwork) listen(service, addr string, agents bool) (*Listener, error) {
	if own := w.cfg.Identity.Current().Name; own != service {
		return nil, fmt.Errorf("%s cannot listen as %s", own, service)
	}
	if addr == "" {
		return nil, fmt.Errorf("no listen address configured for %s", busKey(service, agents))
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

// Dial implements Network.
func (w *TCPNetwork) Dial(service string) (*grpc.ClientConn, error) {
	addr, ok := w.cfg.Peers[service]
	if !ok {
		return nil, fmt.Errorf("no address configured for service %s", service)
	}
	creds := credentials.NewTLS(pki.ClientTLS(w.cfg.Identity, service))
	return newClient(service, "dns:///"+addr, w.cfg.Client, grpc.WithTransportCredentials(creds))
}

// ServerTLS returns the TLS config of an HTTP listener of this process. It accepts only the given services as
// clients.
func (w *TCPNetwork) ServerTLS(services ...string) *tls.Config {
	return pki.ServerTLS(w.cfg.Identity, pki.Only(services...))
}

// ClientTLS returns the TLS config of an HTTP client of this process that calls the service.
func (w *TCPNetwork) ClientTLS(service string) *tls.Config {
	return pki.ClientTLS(w.cfg.Identity, service)
}

func linkOfTLS(info credentials.AuthInfo) (*link, error) {
	t, ok := info.(credentials.TLSInfo)
	if !ok || len(t.State.PeerCertificates) == 0 {
		return nil, errors.New("rpc: the peer has no certificate")
	}
	name, err := pki.NameOf(t.State.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	return &link{kind: "tls", name: name}, nil
}
