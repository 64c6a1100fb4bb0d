package fleet_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// authority adapts the internal CA to the registrar.
type authority struct{ ca *pki.CA }

func (a authority) SignNode(request []byte, nodeID string) (cert, ca []byte, err error) {
	cert, err = a.ca.SignNode(request, nodeID, clock.Real().Now(), time.Hour)
	return cert, a.ca.CertPEM(), err
}

// silentTrail records nothing and returns the error in its field.
type silentTrail struct{ err error }

func (s silentTrail) Record(context.Context, pgx.Tx, string, string, string, any) error { return s.err }

type joinHarness struct {
	t         *testing.T
	pool      *pgxpool.Pool
	registrar *fleet.Registrar
	fleetID   string
}

// newJoinHarness creates a fleet that nodes can join, with a real CA.
func newJoinHarness(t *testing.T) *joinHarness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	ca, err := pki.NewCA(clock.Real().Now(), 24*time.Hour)
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	g := &joinHarness{t: t, pool: pool, registrar: &fleet.Registrar{
		Pool: pool, Clock: clock.Real(), IDs: ids, Rand: rand.Reader, CA: authority{ca}, Events: event.NewLog(clock.Real(), ids, "jobs"),
		Trail: silentTrail{},
	}}
	g.tx(func(ctx context.Context, tx pgx.Tx) error {
		f, err := g.registrar.Create(ctx, tx, "f", fleet.KindAgent, []string{"cpu"})
		if err == nil {
			g.fleetID = f.ID
		}
		return err
	})
	return g
}

func (g *joinHarness) tx(fn func(ctx context.Context, tx pgx.Tx) error) {
	g.t.Helper()
	require.NoError(g.t, pg.InTx(g.t.Context(), g.pool, fn))
}

func (g *joinHarness) mint(ttl time.Duration, uses int) (t *fleet.JoinToken, tok secret.String) {
	g.t.Helper()
	g.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		t, tok, err = g.registrar.Mint(ctx, tx, g.fleetID, ttl, uses)
		return err
	})
	return t, tok
}

func (g *joinHarness) count(from string) (n int) {
	g.t.Helper()
	require.NoError(g.t, g.pool.QueryRow(g.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

// joinRequest creates a certificate request in PEM, with the given changes to its template.
func joinRequest(t *testing.T, change ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.CertificateRequest{}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestJoinTokenMaxUsesUnderConcurrency(t *testing.T) {
	t.Parallel()
	for _, uses := range []int{1, 3} {
		g := newJoinHarness(t)
		row, tok := g.mint(time.Hour, uses)
		csr := joinRequest(t)
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := g.registrar.Join(t.Context(), tok.Reveal(), "host", csr, fleet.Inventory{CPUs: 1})
				switch {
				case err == nil:
					in.Add(1)
				case !fault.HasCode(err, "join_token"):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, uses, in.Load())
		require.Equal(t, uses, g.count("node"))
		require.Equal(t, 1, g.count(`join_token WHERE uses = max_uses AND id = '`+row.ID+`'`))
	}
}

// The table enforces a token's bounds, so a bug elsewhere cannot admit extra nodes.
func TestJoinTokenTableConstraints(t *testing.T) {
	t.Parallel()
	g := newJoinHarness(t)
	g.mint(time.Hour, 2)
	for _, sql := range []string{`UPDATE join_token SET uses = 3`, `UPDATE join_token SET uses = -1`, `UPDATE join_token SET max_uses = 0`} {
		_, err := g.pool.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "check constraint", sql)
	}
}

func TestJoinTokenExpiry(t *testing.T) {
	t.Parallel()
	g := newJoinHarness(t)
	_, tok := g.mint(time.Hour, 5)
	join := func(after time.Duration) error {
		_, err := g.registrar.Join(pg.WithOffset(t.Context(), after), tok.Reveal(), "host", joinRequest(t), fleet.Inventory{})
		return err
	}
	require.NoError(t, join(59*time.Minute))
	require.True(t, fault.Is(join(time.Hour), fault.Unauthenticated), "an expired token must be refused")
	require.True(t, fault.Is(join(1000*time.Hour), fault.Unauthenticated))
	require.Equal(t, 1, g.count("node"))
}

func TestRegistrar_Join_invalidTokensIndistinguishable(t *testing.T) {
	t.Parallel()
	g := newJoinHarness(t)
	_, tok := g.mint(time.Hour, 1)
	other, err := secret.Mint(rand.Reader, secret.KindFleetJoin)
	require.NoError(t, err)
	ingest, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t, err)
	join := func(token string) error {
		_, err := g.registrar.Join(t.Context(), token, "host", joinRequest(t), fleet.Inventory{})
		return err
	}
	require.NoError(t, join(tok.Reveal()))
	messages := map[string]bool{}
	for name, token := range map[string]string{
		"used up": tok.Reveal(), "unknown": other.Reveal(), "of another kind": ingest.Reveal(), "empty": "", "truncated": tok.Reveal()[:20],
		"mistyped": tok.Reveal()[:len(tok.Reveal())-1] + "0", "trailing blank": tok.Reveal() + " ", "SQL": "' OR 1=1 --",
	} {
		err := join(token)
		require.True(t, fault.HasCode(err, "join_token"), "%s: %v", name, err)
		messages[err.Error()] = true
	}
	require.Len(t, messages, 1)
	require.Equal(t, 1, g.count("node"))
	require.Zero(t, g.count(`join_token WHERE encode(hash, 'escape') LIKE '%fjt%'`), "only the hash of the token must be stored")
}

// The certificate contains only the assigned node id and the key of the request. All names in the request are
// ignored.
func TestRegistrar_Join_certificateIgnoresRequestedNames(t *testing.T) {
	t.Parallel()
	for name, wish := range map[string]func(*x509.CertificateRequest){
		"empty":               func(*x509.CertificateRequest) {},
		"service name":        func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: "jobs"} },
		"another node's name": func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: "node/nod_other"} },
		"host names":          func(r *x509.CertificateRequest) { r.DNSNames = []string{"gateway", "*.example"} },
		"URI identities": func(r *x509.CertificateRequest) {
			r.URIs = []*url.URL{{Scheme: "signalbox", Host: "gateway"}, {Scheme: "spiffe", Host: "x", Path: "/jobs"}}
		},
		"CA constraint": func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newJoinHarness(t)
			_, tok := g.mint(time.Hour, 1)
			joined, err := g.registrar.Join(t.Context(), tok.Reveal(), "host", joinRequest(t, wish), fleet.Inventory{})
			require.NoError(t, err)
			block, _ := pem.Decode(joined.CertPEM)
			cert, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			require.Equal(t, "node/"+joined.NodeID, cert.Subject.CommonName)
			require.Empty(t, cert.DNSNames)
			require.Len(t, cert.URIs, 1)
			require.Contains(t, cert.URIs[0].String(), joined.NodeID)
			require.False(t, cert.IsCA)
			roots := x509.NewCertPool()
			require.True(t, roots.AppendCertsFromPEM(joined.CAPEM))
			_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			require.NoError(t, err)
		})
	}
}

func TestRegistrar_Join_invalidRequestKeepsToken(t *testing.T) {
	t.Parallel()
	good := joinRequest(t)
	block, _ := pem.Decode(good)
	forged := append([]byte{}, block.Bytes...)
	forged[len(forged)-1] ^= 1
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	weakDER, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, weak)
	require.NoError(t, err)
	as := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	g := newJoinHarness(t)
	_, tok := g.mint(time.Hour, 1)
	before := g.count("event")
	for name, csr := range map[string][]byte{
		"empty":                nil,
		"not PEM":              []byte("hello"),
		"PEM of another type":  as("CERTIFICATE", block.Bytes),
		"not ASN.1":            as("CERTIFICATE REQUEST", []byte{1, 2, 3}),
		"two requests":         append(append([]byte{}, good...), good...),
		"bad signature":        as("CERTIFICATE REQUEST", forged),
		"RSA key":              as("CERTIFICATE REQUEST", weakDER),
		"request and a script": append(append([]byte{}, good...), "rm -rf /"...),
	} {
		_, err := g.registrar.Join(t.Context(), tok.Reveal(), "host", csr, fleet.Inventory{})
		require.True(t, fault.HasCode(err, "certificate_request"), "%s: %v", name, err)
		require.Equal(t, fault.Refused, fault.From(err).Kind)
	}
	require.Zero(t, g.count("node"))
	require.Equal(t, before, g.count("event"))
	require.Equal(t, 1, g.count(`join_token WHERE uses = 0`))
	_, err = g.registrar.Join(t.Context(), tok.Reveal(), "host", good, fleet.Inventory{})
	require.NoError(t, err, "the token must still be unused")
}

func TestRegistrarRollsBackWithoutAuditRow(t *testing.T) {
	t.Parallel()
	g := newJoinHarness(t)
	_, tok := g.mint(time.Hour, 1)
	broken := errors.New("the audit row cannot be written")
	g.registrar.Trail = silentTrail{broken}
	_, err := g.registrar.Join(t.Context(), tok.Reveal(), "host", joinRequest(t), fleet.Inventory{})
	require.ErrorIs(t, err, broken)
	err = pg.InTx(t.Context(), g.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := g.registrar.Create(ctx, tx, "second", fleet.KindAgent, []string{"gpu"})
		return err
	})
	require.ErrorIs(t, err, broken)
	err = pg.InTx(t.Context(), g.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, _, err := g.registrar.Mint(ctx, tx, g.fleetID, time.Hour, 1)
		return err
	})
	require.ErrorIs(t, err, broken)
	require.Equal(t, [3]int{0, 1, 1}, [3]int{g.count("node"), g.count("fleet"), g.count(`join_token WHERE uses = 0`)})
}
