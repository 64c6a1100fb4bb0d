package oidc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const publicURL = "https://signalbox.example.com"

// harness is an installation with a database, real sessions and a fake provider.
type harness struct {
	*SignIn

	t     *testing.T
	clock *clock.Fake
	idp   *fakeProvider
	began int
}

// oneKey is a key source with one key for access tokens.
type oneKey struct{ key authn.SigningKey }

func (o oneKey) Find(_ context.Context, kid string) (ed25519.PublicKey, error) {
	if kid != o.key.ID {
		return nil, errors.New("unknown key")
	}
	return o.key.Public().Key, nil
}

func (o oneKey) Latest(context.Context, pg.Querier) (authn.SigningKey, error) { return o.key, nil }

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	ids := id.NewSource(clk, rand.Reader)
	trail := audit.NewLog(clk, ids, "auth")
	w := &harness{t: t, clock: clk, idp: newFakeProvider(t, clk)}
	w.SignIn = &SignIn{
		Pool: pool, Audit: trail, Clock: clk, IDs: ids, Rand: rand.Reader, PublicURL: func() string { return publicURL },
		Settings: Settings{
			Issuer: w.idp.URL, ClientID: clientID, ClientSecret: secret.New(clientSecret), GroupsClaim: "groups",
			Scopes: []string{"openid"}, AdminGroups: []string{"admins"}, TeamGroups: []string{"cn=vision,dc=example=vision", "nlp=language"},
		},
		Sessions: &session.Sessions{
			Pool: pool, Audit: trail, Clock: clk, IDs: ids, Rand: rand.Reader, Access: session.NewAccess(oneKey{key}, 8*time.Hour, clk),
		},
	}
	w.fresh()
	w.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ('usr_first', 'admin', 'admin', 'x', now())`)
	return w
}

// fresh replaces the client of the provider with one that has not read the metadata.
func (w *harness) fresh() {
	roots := x509.NewCertPool()
	roots.AddCert(w.idp.Certificate())
	client := egress.New(egress.Options{
		Networks: egress.NewNetworks(netip.MustParsePrefix("127.0.0.1/32")).WithRoots(roots), Body: 64 << 10, Timeout: 30 * time.Second,
	})
	w.Provider = NewProvider(w.Settings, client, w.clock)
	w.t.Cleanup(client.CloseIdleConnections)
}

func (w *harness) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.Pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *harness) count(what string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.Pool.QueryRow(w.t.Context(), `SELECT count(*) FROM `+what).Scan(&n))
	return n
}

// text returns the single value that a query selects.
func (w *harness) text(sql string, args ...any) (s string) {
	w.t.Helper()
	require.NoError(w.t, w.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&s))
	return s
}

// texts returns the values of a query with any number of rows.
func (w *harness) texts(sql string, args ...any) (list []string) {
	w.t.Helper()
	rows, err := w.Pool.Query(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var s string
		require.NoError(w.t, rows.Scan(&s))
		list = append(list, s)
	}
	require.NoError(w.t, rows.Err())
	return list
}

// ann returns the claims of the user ann of the provider, with changes. A nil value removes a claim.
func ann(more ...object) object {
	o := object{"sub": "sub-ann", "preferred_username": "ann", "email": "ann@example.com", "email_verified": true, "groups": []string{}}
	for _, m := range more {
		for k, v := range m {
			if o[k] = v; v == nil {
				delete(o, k)
			}
		}
	}
	return o
}

func in(groups ...string) object { return object{"groups": append([]string{}, groups...)} }

// callback begins a sign-in and returns the response that the provider sends through the user's browser.
func (w *harness) callback(person object) (Callback, error) {
	w.began++ // each sign-in has an address of its own; begin_test.go tests the limit per address
	begun, err := w.Begin(w.t.Context(), "/jobs?state=running", fmt.Sprintf("198.51.%d.%d", w.began/256, w.began%256))
	if err != nil {
		return Callback{}, err
	}
	u, err := url.Parse(begun.URL)
	require.NoError(w.t, err)
	q := u.Query()
	require.Equal(w.t, "S256", q.Get("code_challenge_method"))
	code := w.idp.grant(person, q.Get("nonce"), q.Get("code_challenge"))
	return Callback{
		State: secret.New(q.Get("state")), Code: secret.New(code), Binding: begun.Binding, Issuer: w.idp.URL, Address: "192.0.2.7",
	}, nil
}

// signIn runs a whole sign-in.
func (w *harness) signIn(person object) (session.Tokens, error) {
	a, err := w.callback(person)
	if err != nil {
		return session.Tokens{}, err
	}
	tokens, next, err := w.Finish(w.t.Context(), a)
	if err == nil {
		require.Equal(w.t, "/jobs?state=running", next)
	}
	return tokens, err
}

func (w *harness) mustSignIn(person object) session.Tokens {
	w.t.Helper()
	tokens, err := w.signIn(person)
	require.NoError(w.t, err)
	return tokens
}
