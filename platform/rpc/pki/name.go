// Package pki owns the internal certificate authority: who may be who on the wire between services
// and agents. A certificate's identity is its one URI, spiffe://signalbox/<service> or
// spiffe://signalbox/node/<node id>; DNS names and addresses mean nothing.
//
// It promises TLS 1.3 with certificates on both sides, chains checked against the one internal CA in
// both directions, identities checked by both ends, and key files that only their owner can read.
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

// ServiceName checks the name of a service, which is also its identity.
func ServiceName(service string) (string, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`).MatchString(service) || service == "node" {
		return "", fmt.Errorf("%q is no name of a service", service)
	}
	return service, nil
}

// NodeName is the identity of a node: node/<id>.
func NodeName(nodeID string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString(nodeID) {
		return "", fmt.Errorf("%q is no id of a node", nodeID)
	}
	return nodePrefix + nodeID, nil
}

// NodeID is the id in a node's identity; it is false for any other identity.
func NodeID(name string) (string, bool) { return strings.CutPrefix(name, nodePrefix) }

// NameOf is the identity that a certificate carries: `jobs`, or `node/<id>`. The chain must have been
// checked before.
func NameOf(cert *x509.Certificate) (string, error) {
	if len(cert.URIs) != 1 {
		return "", errors.New("certificate does not carry exactly one URI")
	}
	u := cert.URIs[0]
	name := strings.TrimPrefix(u.Path, "/")
	if want := uriOf(name); u.String() != want.String() {
		return "", errors.New("certificate's URI is not of this installation")
	}
	if id, isNode := NodeID(name); isNode {
		return NodeName(id)
	}
	return ServiceName(name)
}

func uriOf(name string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + name}
}
