package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
	"github.com/signalbox-dev/signalbox/services/auth/internal/key"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	public   = "https://signalbox.example"
	resource = public + "/api/mcp"
	here     = "192.0.2.7"
	clientID = "https://client.example/metadata"
	otherID  = "https://other.example/metadata"
	redirect = "https://client.example/cb"
	local    = "http://127.0.0.1/cb"
)

// verifier is the PKCE verifier of a client.
const verifier = "verifier-verifier-verifier-verifier-verifier-"

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// flows is a fake device flow.
type flows struct {
	began  []device.Start
	polled []device.Poll
	err    error
}

func (f *flows) Begin(_ context.Context, s device.Start) (device.Codes, error) {
	f.began = append(f.began, s)
	return device.Codes{Device: secret.New("dvc"), User: "WDJB-MJHT", TTL: device.TTL, Interval: device.Interval}, f.err
}

func (f *flows) Poll(_ context.Context, p device.Poll) (device.Token, error) {
	f.polled = append(f.polled, p)
	return device.Token{Access: secret.New("api"), Expires: 8 * time.Hour}, f.err
}

// harness is an authorization server with a database of its own, one user and two clients.
type harness struct {
	*Authority

	t     *testing.T
	db    *pgtest.DB
	clock *clock.Fake
	flows *flows
	peer  *PeerServer
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files})
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	trail := audit.NewLog(clk, ids, "auth")
	pool := d.Pool("auth")
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	keys, err := key.NewRing(t.Context(), &key.Store{Pool: pool, Keyring: ring, Clock: clk, Rand: rand.Reader})
	require.NoError(t, err)
	h := &harness{t: t, db: d, clock: clk, flows: &flows{}}
	h.Authority = &Authority{
		Pool: pool, Clients: &Clients{Pool: pool, Clock: clk}, Devices: h.flows, Audit: trail, Clock: clk, IDs: ids, Rand: rand.Reader,
		Sessions: &session.Sessions{
			Pool: pool, Audit: trail, Clock: clk, IDs: ids, Rand: rand.Reader,
			Access: session.NewAccess(keys.Of(key.Access), 8*time.Hour, clk),
		},
		PublicURL: func() string { return public },
	}
	h.peer = &PeerServer{Authority: h.Authority, Keys: keys}
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ('usr_1', 'ann', 'operator', 'x', now())`)
	h.exec(`INSERT INTO session (id, account_id, method, client_address, created_at, expires_at) VALUES ('ses_1', 'usr_1', 'password', '198.51.100.1', now(), now())`)
	require.NoError(t, h.Clients.Register(t.Context(), Client{ID: clientID, Name: "Client", Redirects: []string{redirect, local}}))
	require.NoError(t, h.Clients.Register(t.Context(), Client{ID: otherID, Name: "Other", Redirects: []string{redirect}}))
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.Pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

// text returns the first column of the first row.
func (h *harness) text(sql string, args ...any) (text string) {
	h.t.Helper()
	require.NoError(h.t, h.Pool.QueryRow(h.t.Context(), sql, args...).Scan(&text))
	return text
}

func (h *harness) audits() []string {
	h.t.Helper()
	rows, err := h.Pool.Query(h.t.Context(), `SELECT action || ' ' || actor_id FROM audit WHERE action LIKE 'oauth.%' ORDER BY seq`)
	require.NoError(h.t, err)
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	return actions
}

// person returns the user who decides, with the context of the user's request.
func (h *harness) person() (context.Context, *authn.Caller) {
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "ann", SessionID: "ses_1", Role: "operator", Epoch: 1, ClientAddr: "198.51.100.1"}
	return authn.NewContext(h.t.Context(), c), c
}

// authorizationRequest returns a valid authorization request with changes.
func authorizationRequest(change ...func(*AuthorizationRequest)) AuthorizationRequest {
	state := "s t&te"
	in := AuthorizationRequest{
		ResponseType: "code", ClientID: clientID, Redirect: redirect, Challenge: challenge(verifier), Method: "S256",
		Resource: resource, Scope: "read jobs:plan", State: &state, Approve: true,
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// decide sends the user's decision and returns the query of the address to which the browser is then redirected.
func (h *harness) decide(in AuthorizationRequest) url.Values {
	h.t.Helper()
	ctx, c := h.person()
	to, err := h.Decide(ctx, c, in)
	require.NoError(h.t, err)
	require.True(h.t, strings.HasPrefix(to, in.Redirect), to)
	u, err := url.Parse(to)
	require.NoError(h.t, err)
	require.Equal(h.t, public, u.Query().Get("iss"))
	return u.Query()
}

func (h *harness) code() string {
	h.t.Helper()
	code := h.decide(authorizationRequest()).Get("code")
	require.NotEmpty(h.t, code)
	return code
}

type form = map[string]string

// with returns the form with some fields changed; an empty value removes the field.
func with(f form, change form) form {
	out := maps.Clone(f)
	for k, v := range change {
		if out[k] = v; v == "" {
			delete(out, k)
		}
	}
	return out
}

func exchangeForm(code string) form {
	return form{
		"grant_type": grantCode, "client_id": clientID, "code": code, "code_verifier": verifier, "redirect_uri": redirect, "resource": resource,
	}
}

func refreshForm(token string) form {
	return form{"grant_type": grantRefresh, "client_id": clientID, "refresh_token": token}
}

// issue returns the response of the token endpoint.
func (h *harness) issue(f form) (status int, body map[string]any) {
	h.t.Helper()
	out, err := h.peer.IssueToken(h.t.Context(), &authpeerv1.IssueTokenRequest{Form: f, ClientAddress: here})
	require.NoError(h.t, err)
	require.NoError(h.t, json.Unmarshal(out.GetBody(), &body))
	return int(out.GetStatus()), body
}

// pair is an access token and its refresh token.
type pair struct{ access, refresh string }

func (h *harness) tokens(f form) pair {
	h.t.Helper()
	status, body := h.issue(f)
	require.Equal(h.t, 200, status, "%v", body)
	return pair{body["access_token"].(string), body["refresh_token"].(string)}
}

// refused returns the error code of a request that must be refused.
func (h *harness) refused(f form) string {
	h.t.Helper()
	status, body := h.issue(f)
	require.Equal(h.t, 400, status, "%v", body)
	require.NotContains(h.t, body, "access_token")
	return body["error"].(string)
}

// tokenValid reports whether an access token is valid for its resource.
func (h *harness) tokenValid(access string) bool {
	h.t.Helper()
	_, _, err := h.Sessions.AuthenticateFor(h.t.Context(), access, here, public, resource)
	require.True(h.t, err == nil || fault.Is(err, fault.Unauthenticated), "%v", err)
	return err == nil
}

func (h *harness) revoke(f form) (status int, word string) {
	h.t.Helper()
	out, err := h.peer.RevokeToken(h.t.Context(), &authpeerv1.RevokeTokenRequest{Form: f})
	require.NoError(h.t, err)
	var body struct{ Error string }
	if len(out.GetBody()) > 0 {
		require.NoError(h.t, json.Unmarshal(out.GetBody(), &body))
	}
	return int(out.GetStatus()), body.Error
}
