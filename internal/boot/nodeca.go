package boot

import (
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// NodeCA signs node certificates with the internal CA.
type NodeCA struct {
	CA    *pki.CA
	Clock clock.Clock
}

// SignNode signs a certificate request and returns the node's certificate and that of the CA.
func (n NodeCA) SignNode(requestPEM []byte, nodeID string) (certPEM, caPEM []byte, err error) {
	certPEM, err = n.CA.SignNode(requestPEM, nodeID, n.Clock.Now(), pki.DefaultNodeLife)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", nodeID, err)
	}
	return certPEM, n.CA.CertPEM(), nil
}
