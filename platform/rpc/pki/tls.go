package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Source provides the identity of this process. Current is called for each handshake, so that a renewed certificate
// is used at once.
type Source interface{ Current() *Identity }

// ServerTLS returns the config of a listener. It requires TLS 1.3 and a client certificate of the internal CA. The
// function allow must accept the identity in the certificate.
func ServerTLS(src Source, allow func(name string) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &src.Current().cert, nil
		},
		// VerifyConnection verifies the chain against the current roots.
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return verify(src, cs, x509.ExtKeyUsageClientAuth, allow)
		},
	}
}

// ClientTLS returns the config of a connection to the service with the given identity. It requires TLS 1.3 and presents
// the certificate of this process.
func ClientTLS(src Source, want string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &src.Current().cert, nil
		},
		// Identities are URIs, which the standard host name check does not support. VerifyConnection verifies chain
		// and identity on every handshake.
		InsecureSkipVerify: true, //nolint:gosec // see above
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

// OnlyServices returns an error unless the given name is the identity of a service.
func OnlyServices(name string) error {
	if _, isNode := NodeID(name); isNode {
		return errors.New("nodes may not connect to this listener")
	}
	return nil
}

// OnlyNodes returns an error unless the given name is the identity of a node.
func OnlyNodes(name string) error {
	if _, isNode := NodeID(name); !isNode {
		return errors.New("only nodes may connect to this listener")
	}
	return nil
}

// Only returns a check that returns an error unless the given name is one of the services.
func Only(services ...string) func(name string) error {
	return func(name string) error {
		if slices.Contains(services, name) {
			return nil
		}
		return fmt.Errorf("%s may not connect to this listener", name)
	}
}

func verify(src Source, cs tls.ConnectionState, usage x509.ExtKeyUsage, allow func(string) error) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range cs.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: src.Current().roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return fmt.Errorf("verify the peer certificate: %w", err)
	}
	name, err := NameOf(cs.PeerCertificates[0])
	if err != nil {
		return err
	}
	return allow(name)
}
