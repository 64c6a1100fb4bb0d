// Package pki owns the internal certificate authority and the identities of services and agents in TLS. The identity
// in a certificate is its only URI, spiffe://signalbox/<service> or spiffe://signalbox/node/<node id>; DNS names and
// addresses are ignored.
//
// It promises that connections use TLS 1.3, that both sides present a certificate of the internal CA and check the
// identity of the other side, and that only the owner of a key file can read it.
package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const (
	trustDomain = "signalbox"
	nodePrefix  = "node/"
)

// ServiceName checks and returns the name of a service, which is also its identity.
func ServiceName(service string) (string, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`).MatchString(service) || service == "node" {
		return "", fmt.Errorf("%q is not a valid service name", service)
	}
	return service, nil
}

// NodeName returns the identity of a node: node/<id>.
func NodeName(nodeID string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString(nodeID) {
		return "", fmt.Errorf("%q is not a valid node id", nodeID)
	}
	return nodePrefix + nodeID, nil
}

// NodeID returns the id in the identity of a node, and false for other identities.
func NodeID(name string) (string, bool) { return strings.CutPrefix(name, nodePrefix) }

// NameOf returns the identity in a certificate: the name of a service, such as `jobs`, or `node/<id>`. The
// caller must have verified the chain.
func NameOf(cert *x509.Certificate) (string, error) {
	if len(cert.URIs) != 1 {
		return "", errors.New("the certificate does not have exactly one URI")
	}
	u := cert.URIs[0]
	name := strings.TrimPrefix(u.Path, "/")
	if want := uriOf(name); u.String() != want.String() {
		return "", errors.New("the URI of the certificate is not a Signalbox identity")
	}
	if id, isNode := NodeID(name); isNode {
		return NodeName(id)
	}
	return ServiceName(name)
}

func uriOf(name string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + name}
}
