package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Source gives the identity that holds now.
type Source interface{ Current() *Identity }

// ServerTLS is the TLS of a listener: TLS 1.3, a client certificate of our CA required, and its
// identity accepted by allow.
func ServerTLS(src Source, allow func(name string) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &src.Current().cert, nil
		},
		// The chain is checked below against the roots that hold now.
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return verify(src, cs, x509.ExtKeyUsageClientAuth, allow)
		},
	}
}

// ClientTLS is the TLS of a connection to one service: TLS 1.3, our certificate, and a server that
// proves to be want.
func ClientTLS(src Source, want string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &src.Current().cert, nil
		},
		// Identities are URIs, which the standard check of host names does not know;
		// VerifyConnection checks chain and identity, on every handshake.
		InsecureSkipVerify: true, //nolint:gosec // see the sentence above
		VerifyConnection: func(cs tls.ConnectionState) error {
			return verify(src, cs, x509.ExtKeyUsageServerAuth, func(name string) error {
				if name != want {
					return fmt.Errorf("the server is %s, not %s", name, want)
				}
				return nil
			})
		},
	}
}

// OnlyServices allows the identities of services.
func OnlyServices(name string) error {
	if _, isNode := NodeID(name); isNode {
		return errors.New("a node may not connect here")
	}
	return nil
}

// OnlyNodes allows the identities of nodes.
func OnlyNodes(name string) error {
	if _, isNode := NodeID(name); !isNode {
		return errors.New("only nodes may connect here")
	}
	return nil
}

// Only allows the named services.
func Only(services ...string) func(name string) error {
	return func(name string) error {
		if slices.Contains(services, name) {
			return nil
		}
		return fmt.Errorf("%s may not connect here", name)
	}
}

func verify(src Source, cs tls.ConnectionState, usage x509.ExtKeyUsage, allow func(string) error) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range cs.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: src.Current().roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return fmt.Errorf("check the peer's certificate: %w", err)
	}
	name, err := NameOf(cs.PeerCertificates[0])
	if err != nil {
		return err
	}
	return allow(name)
}
