package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

const (
	// DefaultCALife is the default validity of a CA.
	DefaultCALife = 10 * 365 * 24 * time.Hour
	// DefaultServiceLife is the validity of a service certificate.
	DefaultServiceLife = 365 * 24 * time.Hour
	// DefaultNodeLife is the validity of a node certificate; agents renew it after two thirds of that time.
	DefaultNodeLife = 30 * 24 * time.Hour

	// backdate is how far the start of a certificate is backdated, so that hosts with slow clocks accept it.
	backdate = time.Minute

	typeCert    = "CERTIFICATE"
	typeKey     = "PRIVATE KEY"
	typeRequest = "CERTIFICATE REQUEST"
)

// CA is the certificate authority of the installation.
type CA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate and its key in PEM form.
type Pair struct {
	Cert []byte
	Key  []byte
}

// String implements fmt.Stringer; it keeps the key out of logs.
func (Pair) String() string { return "[certificate and key]" }

// GoString implements fmt.GoStringer; it keeps the key out of %#v.
func (p Pair) GoString() string { return p.String() }

// NewCA creates a CA that is valid from now on for the given duration.
func NewCA(now time.Time, life time.Duration) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the CA key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Signalbox internal CA"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		PermittedURIDomains:         []string{trustDomain},
		PermittedDNSDomainsCritical: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the CA certificate: %w", err)
	}
	return &CA{cert: cert, key: key}, nil
}

// CertPEM returns the CA certificate, which all services and agents trust.
func (ca *CA) CertPEM() []byte { return encode(typeCert, ca.cert.Raw) }

// IssueService creates a key and a certificate for a service. The certificate expires with the CA at the latest.
func (ca *CA) IssueService(service string, now time.Time, life time.Duration) (Pair, error) {
	name, err := ServiceName(service)
	if err != nil {
		return Pair{}, err
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	cert, err := ca.issue(name, key.Public(), now, life)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: cert, Key: keyPEM}, nil
}

// NewRequest creates the key and the certificate request of a node. The request does not contain the node's identity,
// because the CA determines it.
func NewRequest() (keyPEM, requestPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate request: %w", err)
	}
	return keyPEM, encode(typeRequest, der), nil
}

// SignNode returns the certificate of a node. It uses only the public key in the request and ignores all names in it.
func (ca *CA) SignNode(requestPEM []byte, nodeID string, now time.Time, life time.Duration) ([]byte, error) {
	name, err := NodeName(nodeID)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(requestPEM)
	if block == nil || block.Type != typeRequest || len(rest) > 0 {
		return nil, errors.New("the request is not a single PEM certificate request")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("verify the signature of the certificate request: %w", err)
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return nil, errors.New("the key of the certificate request must be on the curve P-256 or P-384")
		}
	default:
		return nil, errors.New("the key of the certificate request must be ECDSA or Ed25519")
	}
	return ca.issue(name, request.PublicKey, now, life)
}

func (ca *CA) issue(name string, public crypto.PublicKey, now time.Time, life time.Duration) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	end := now.Add(life)
	if end.After(ca.cert.NotAfter) {
		end = ca.cert.NotAfter
	}
	if !now.Before(end) {
		return nil, errors.New("the CA has expired")
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{uriOf(name)},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return encode(typeCert, der), nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create a key: %w", err)
	}
	keyPEM, err := encodeKey(key)
	return key, keyPEM, err
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode(typeKey, der), nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("create a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func encode(typ string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
}
