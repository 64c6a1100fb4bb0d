package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(now(), 24*time.Hour)
	require.NoError(t, err)
	return ca
}

func now() time.Time { return clock.Real().Now() }

func leaf(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(certPEM)
	require.NotNil(t, block)
	require.Empty(t, rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

func service(t *testing.T, ca *pki.CA, name string) *pki.Identity {
	t.Helper()
	pair, err := ca.IssueService(name, now(), time.Hour)
	require.NoError(t, err)
	ident, err := pki.Parse(pair.Cert, pair.Key, ca.CertPEM())
	require.NoError(t, err)
	return ident
}

func TestCA_IssueService(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	pair, err := ca.IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	cert := leaf(t, pair.Cert)
	require.Equal(t, "spiffe://signalbox/jobs", cert.URIs[0].String())
	require.Empty(t, cert.DNSNames)
	require.False(t, cert.IsCA)
	require.WithinDuration(t, now().Add(time.Hour), cert.NotAfter, time.Minute)
	require.Equal(t, "[certificate and key]", fmt.Sprintf("%v", pair))
	require.Equal(t, "[certificate and key]", fmt.Sprintf("%#v", pair))

	for _, name := range []string{"", "node", "node/nod_1", "Jobs", "jobs/x", "../jobs", "jobs?x", "jobs#x", "a b", "jobs\x00"} {
		_, err := ca.IssueService(name, now(), time.Hour)
		require.Error(t, err, "%q", name)
	}
}

func TestCA_IssueService_expiresWithCA(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	pair, err := ca.IssueService("jobs", now(), pki.DefaultServiceLife)
	require.NoError(t, err)
	require.WithinDuration(t, now().Add(24*time.Hour), leaf(t, pair.Cert).NotAfter, time.Minute)
	_, err = ca.IssueService("jobs", now().Add(25*time.Hour), time.Hour)
	require.ErrorContains(t, err, "expired")
}

func TestCA_SignNode(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	key, request, err := pki.NewRequest()
	require.NoError(t, err)
	cert, err := ca.SignNode(request, "nod_1", now(), time.Hour)
	require.NoError(t, err)
	ident, err := pki.Parse(cert, key, ca.CertPEM())
	require.NoError(t, err)
	require.Equal(t, "node/nod_1", ident.Name)
	require.Same(t, ident, ident.Current())
	id, ok := pki.NodeID(ident.Name)
	require.True(t, ok)
	require.Equal(t, "nod_1", id)

	for _, bad := range []string{"", "../jobs", "nod/1", "NOD", "nod 1", "nod_1?"} {
		_, err := ca.SignNode(request, bad, now(), time.Hour)
		require.Error(t, err, "%q", bad)
	}
}

func csr(t *testing.T, template *x509.CertificateRequest, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestCA_SignNode_ignoresNamesOfRequest(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	wish := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "auth"}, DNSNames: []string{"auth"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "signalbox", Path: "/auth"}},
	}
	cert, err := newCA(t).SignNode(csr(t, wish, key), "nod_1", now(), time.Hour)
	require.NoError(t, err)
	got := leaf(t, cert)
	require.Equal(t, "node/nod_1", got.Subject.CommonName)
	require.Empty(t, got.DNSNames)
	require.Len(t, got.URIs, 1)
	require.Equal(t, "spiffe://signalbox/node/nod_1", got.URIs[0].String())
}

func TestCA_SignNode_badRequests(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	_, good, err := pki.NewRequest()
	require.NoError(t, err)
	block, _ := pem.Decode(good)
	broken := append([]byte{}, block.Bytes...)
	broken[len(broken)-1] ^= 1
	odd, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, request := range map[string][]byte{
		"empty": nil, "no PEM": []byte("hello"), "two": append(append([]byte{}, good...), good...),
		"certificate":       ca.CertPEM(),
		"malformed request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}),
		"broken signature":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: broken}),
		"unusual curve":     csr(t, &x509.CertificateRequest{}, odd),
		"rsa":               csr(t, &x509.CertificateRequest{}, weak),
	} {
		_, err := ca.SignNode(request, "nod_1", now(), time.Hour)
		require.Error(t, err, name)
	}
}

func TestNameOf_strict(t *testing.T) {
	t.Parallel()
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		require.NoError(t, err)
		return u
	}
	for text, want := range map[string]string{
		"spiffe://signalbox/jobs":            "jobs",
		"spiffe://signalbox/node/nod_1":      "node/nod_1",
		"spiffe://signalbox/":                "",
		"spiffe://signalbox/node":            "",
		"spiffe://signalbox/node/":           "",
		"spiffe://signalbox/node/a/b":        "",
		"spiffe://signalbox//jobs":           "",
		"spiffe://signalbox/jobs?x=1":        "",
		"spiffe://signalbox/jobs#x":          "",
		"spiffe://user@signalbox/jobs":       "",
		"spiffe://signalbox:1/jobs":          "",
		"spiffe://other/jobs":                "",
		"https://signalbox/jobs":             "",
		"spiffe://signalbox/%6aobs/../jobs":  "",
		"spiffe://signalbox/node%2fnod_1":    "",
		"spiffe:signalbox/jobs":              "",
		"spiffe://signalbox.evil.test/jobs":  "",
		"spiffe://SIGNALBOX/jobs":            "",
		"spiffe://signalbox/node/../jobs":    "",
		"spiffe://signalbox/jobs/":           "",
		"spiffe://signalbox/node/nod_1%00":   "",
		"spiffe://signalbox/node/nod_1/..":   "",
		"spiffe://signalbox/\u0458obs":       "",
		"spiffe://signalbox/jobs%20registry": "",
	} {
		got, err := pki.NameOf(&x509.Certificate{URIs: []*url.URL{parse(text)}})
		require.Equal(t, want, got, text)
		require.Equal(t, want != "", err == nil, text)
	}
	_, err := pki.NameOf(&x509.Certificate{})
	require.Error(t, err)
	two := []*url.URL{parse("spiffe://signalbox/jobs"), parse("spiffe://signalbox/auth")}
	_, err = pki.NameOf(&x509.Certificate{URIs: two})
	require.Error(t, err)
}

// shake does one TLS handshake and returns the errors of both ends.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.HandshakeContext(t.Context())
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
		_ = a.Close()
	}()
	c := tls.Client(b, client)
	clientErr = c.HandshakeContext(t.Context())
	if clientErr == nil {
		require.EqualValues(t, tls.VersionTLS13, c.ConnectionState().Version)
		_, clientErr = c.Read(make([]byte, 1)) // the server checks the client after the client's handshake is complete
	}
	_ = b.Close()
	return <-done, clientErr
}

func TestTLS_handshakes(t *testing.T) {
	t.Parallel()
	ca, other := newCA(t), newCA(t)
	jobs, auth := service(t, ca, "jobs"), service(t, ca, "auth")
	late, err := ca.IssueService("jobs", now().Add(-2*time.Hour), time.Hour)
	require.NoError(t, err)
	expired, err := pki.Parse(late.Cert, late.Key, ca.CertPEM())
	require.NoError(t, err)
	old := pki.ClientTLS(jobs, "auth")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	services := pki.ServerTLS(auth, pki.OnlyServices)
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		ok             bool
	}{
		{"valid certificates", services, pki.ClientTLS(jobs, "auth"), true},
		{"wrong server", services, pki.ClientTLS(jobs, "registry"), false},
		{"client of another CA", services, pki.ClientTLS(service(t, other, "jobs"), "auth"), false},
		{"server of another CA", pki.ServerTLS(service(t, other, "auth"), pki.OnlyServices), pki.ClientTLS(jobs, "auth"), false},
		{"expired client", services, pki.ClientTLS(expired, "auth"), false},
		{"expired server", pki.ServerTLS(expired, pki.OnlyServices), pki.ClientTLS(auth, "jobs"), false},
		{"no certificate", services, &tls.Config{InsecureSkipVerify: true}, false},
		{"TLS 1.2", services, old, false},
		{"not a node", pki.ServerTLS(auth, pki.OnlyNodes), pki.ClientTLS(jobs, "auth"), false},
		{"listed service", pki.ServerTLS(auth, pki.Only("x", "jobs")), pki.ClientTLS(jobs, "auth"), true},
		{"unlisted service", pki.ServerTLS(auth, pki.Only("x")), pki.ClientTLS(jobs, "auth"), false},
	} {
		serverErr, clientErr := shake(t, c.server, c.client)
		require.Equal(t, c.ok, serverErr == nil && clientErr == nil, "%s: %v, %v", c.name, serverErr, clientErr)
	}
}
