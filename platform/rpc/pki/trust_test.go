package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// signed creates a certificate for jobs with the key of the parent. The function change may set fields that the CA
// would not issue.
func signed(t *testing.T, parent pki.Pair, change func(*x509.Certificate)) pki.Pair {
	t.Helper()
	signer, err := tls.X509KeyPair(parent.Cert, parent.Key)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	jobs, err := url.Parse("spiffe://signalbox/jobs")
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "jobs"}, URIs: []*url.URL{jobs},
		NotBefore: now().Add(-time.Minute), NotAfter: now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, signer.Leaf, key.Public(), signer.PrivateKey)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pki.Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
}

// authority returns a CA and the pair of its certificate and key.
func authority(t *testing.T) (*pki.CA, pki.Pair) {
	t.Helper()
	dir := t.TempDir()
	ca := newCA(t)
	require.NoError(t, ca.Save(dir))
	key, err := os.ReadFile(filepath.Join(dir, "ca-key.pem"))
	require.NoError(t, err)
	return ca, pki.Pair{Cert: ca.CertPEM(), Key: key}
}

// client returns the config of a client that presents the certificate and verifies nothing.
func client(t *testing.T, p pki.Pair, chain ...[]byte) *tls.Config {
	t.Helper()
	cert, err := tls.X509KeyPair(append(p.Cert, join(chain)...), p.Key)
	require.NoError(t, err)
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
}

func join(chain [][]byte) (out []byte) {
	for _, c := range chain {
		out = append(out, c...)
	}
	return out
}

func TestServerTLS_certificateUsage(t *testing.T) {
	t.Parallel()
	ca, root := authority(t)
	services := pki.ServerTLS(service(t, ca, "auth"), pki.OnlyServices)
	extra := func(text string) *url.URL {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return u
	}
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		ok     bool
	}{
		"as the CA issues them":   {func(*x509.Certificate) {}, true},
		"server usage only":       {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, false},
		"email usage":             {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }, false},
		"two identities":          {func(c *x509.Certificate) { c.URIs = append(c.URIs, extra("spiffe://signalbox/registry")) }, false},
		"no identity":             {func(c *x509.Certificate) { c.URIs = nil }, false},
		"DNS name instead of URI": {func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"jobs"} }, false},
		"other trust domain":      {func(c *x509.Certificate) { c.URIs = []*url.URL{extra("spiffe://other/jobs")} }, false},
		"node":                    {func(c *x509.Certificate) { c.URIs = []*url.URL{extra("spiffe://signalbox/node/nod_1")} }, false},
		"not yet valid":           {func(c *x509.Certificate) { c.NotBefore = now().Add(time.Hour); c.NotAfter = now().Add(2 * time.Hour) }, false},
		"expired":                 {func(c *x509.Certificate) { c.NotAfter = now().Add(-time.Second) }, false},
	} {
		serverErr, clientErr := shake(t, services, client(t, signed(t, root, c.change)))
		require.Equal(t, c.ok, serverErr == nil && clientErr == nil, "%s: %v, %v", name, serverErr, clientErr)
	}
}

// An attacker with the key of a service must not be able to issue certificates.
func TestServerTLS_serviceCannotIssueCertificates(t *testing.T) {
	t.Parallel()
	ca, root := authority(t)
	services := pki.ServerTLS(service(t, ca, "auth"), pki.OnlyServices)
	jobs, err := ca.IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	forged := signed(t, jobs, func(*x509.Certificate) {})
	between := signed(t, root, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign })
	below := signed(t, between, func(*x509.Certificate) {})
	for name, c := range map[string]*tls.Config{
		"signed by a service":           client(t, forged),
		"with the service in the chain": client(t, forged, jobs.Cert),
		"with the CA in the chain":      client(t, forged, jobs.Cert, ca.CertPEM()),
		"below an intermediate CA":      client(t, below, between.Cert),
	} {
		serverErr, clientErr := shake(t, services, c)
		require.Error(t, serverErr, "%s: %v", name, clientErr)
	}
}

func TestTLS_sessionOfReplacedCAIsNotResumed(t *testing.T) {
	t.Parallel()
	old, next := newCA(t), newCA(t)
	source := &switching{ident: service(t, old, "auth")}
	server := pki.ServerTLS(source, pki.OnlyServices)
	dialer := pki.ClientTLS(service(t, old, "jobs"), "auth")
	dialer.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	dialer.ServerName = "auth"
	for range 2 {
		serverErr, clientErr := shake(t, server, dialer)
		require.NoError(t, serverErr)
		require.NoError(t, clientErr)
	}
	source.set(service(t, next, "auth"))
	serverErr, clientErr := shake(t, server, dialer)
	require.False(t, serverErr == nil && clientErr == nil, "every connection verifies the chain")
}

type switching struct {
	mu    sync.Mutex
	ident *pki.Identity
}

func (s *switching) Current() *pki.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ident
}

func (s *switching) set(ident *pki.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ident = ident
}

func TestServiceNameAndNodeName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"jobs": true, "a": true, "a-b-2": true, strings.Repeat("a", 40): true, strings.Repeat("a", 41): false, "2a": false, "-a": false,
		"jobs\n": false, "node": false, "nodes": true, "jöbs": false, "jobs.": false, "a_b": false,
	} {
		got, err := pki.ServiceName(name)
		require.Equal(t, ok, err == nil, "%q", name)
		require.True(t, !ok || got == name)
	}
	for id, ok := range map[string]bool{
		"nod_1": true, strings.Repeat("n", 64): true, strings.Repeat("n", 65): false, "": false, "a/b": false, "..": false, "a.b": false,
		"nod_1\n": false, "NOD_1": false, "nod 1": false,
	} {
		name, err := pki.NodeName(id)
		require.Equal(t, ok, err == nil, "%q", id)
		if !ok {
			continue
		}
		back, isNode := pki.NodeID(name)
		require.True(t, isNode)
		require.Equal(t, id, back)
		_, err = pki.ServiceName(name)
		require.Error(t, err, "the name of a node is not a service name")
	}
}

func TestCA_IssueService_uniqueSerialAndBackdated(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	serials := map[string]bool{}
	for range 50 {
		pair, err := ca.IssueService("jobs", now(), time.Hour)
		require.NoError(t, err)
		cert := leaf(t, pair.Cert)
		require.Positive(t, cert.SerialNumber.Sign())
		require.LessOrEqual(t, cert.SerialNumber.BitLen(), 128)
		require.True(t, cert.NotBefore.Before(now()), "a host with a slow clock must accept the certificate")
		serials[cert.SerialNumber.String()] = true
	}
	require.Len(t, serials, 50)
}

func TestFiles_Current_renewalUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newCA(t)
	require.NoError(t, ca.Save(dir))
	renew := func(n int) {
		pair, err := ca.IssueService("jobs", now(), time.Hour)
		require.NoError(t, err)
		require.NoError(t, pair.Save(dir, "own"))
		stamp := now().Add(time.Duration(n) * time.Second)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "own.pem"), stamp, stamp))
	}
	renew(0)
	files, err := pki.OpenFiles(filepath.Join(dir, "own.pem"), filepath.Join(dir, "own-key.pem"), filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 20 {
			renew(n + 1)
		}
	}()
	for {
		require.Equal(t, "jobs", files.Current().Name, "key and certificate always match")
		select {
		case <-done:
			serverErr, clientErr := shake(t, pki.ServerTLS(files, pki.OnlyServices), pki.ClientTLS(service(t, ca, "auth"), "jobs"))
			require.NoError(t, serverErr)
			require.NoError(t, clientErr)
			return
		default:
		}
	}
}
