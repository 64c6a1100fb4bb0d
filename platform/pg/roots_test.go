package pg_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// rootsURL is set in the process that TestConnect_trustsSSLCertFile starts, because Go reads SSL_CERT_FILE only once.
const rootsURL = "TEST_ROOTS_URL"

// tlsServer listens like a Postgres server with a certificate that it has signed itself. It refuses all clients that accept
// the certificate. It returns its port and the certificate in PEM.
func tlsServer(t *testing.T) (port string, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "localhost:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			refuseOverTLS(conn, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func refuseOverTLS(conn net.Conn, certificate tls.Certificate) {
	defer func() { _ = conn.Close() }()
	if _, err := pgproto3.NewBackend(conn, conn).ReceiveStartupMessage(); err != nil { // the request for TLS
		return
	}
	if _, err := conn.Write([]byte("S")); err != nil {
		return
	}
	secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	client := pgproto3.NewBackend(secure, secure)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28000", Message: "the certificate was accepted"})
	_ = client.Flush() // the client reports what it has received
}

// A URL with sslmode=verify-full needs no sslrootcert if SSL_CERT_FILE names the CA, as the Helm chart sets it.
func TestConnect_trustsSSLCertFile(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(rootsURL); url != "" {
		_, err := pg.Connect(pgtest.Context(t), url, nil)
		t.Log(err)
		return
	}
	port, certificate := tlsServer(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, certificate, 0o600))
	for want, cas := range map[string]string{"the certificate was accepted": file, "signed by unknown authority": "/etc/ssl/certs/ca-certificates.crt"} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConnect_trustsSSLCertFile$", "-test.v")
		command.Env = append(withoutPG(os.Environ()), "SSL_CERT_FILE="+cas, rootsURL+"=postgres://jobs:the-password@localhost:"+port+"/signalbox?sslmode=verify-full")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), want)
	}
}

// withoutPG removes the variables that the driver reads.
func withoutPG(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "PG") {
			out = append(out, e)
		}
	}
	return out
}
