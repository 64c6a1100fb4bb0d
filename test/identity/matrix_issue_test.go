package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// makeCredentials makes a valid credential of every kind, and some that are not valid.
func (w *harness) makeCredentials(ctx context.Context, t *testing.T) credentialSet {
	t.Helper()
	admin := w.createUser(ctx, t, "second-admin", "admin", 4)
	w.people["presenter"] = at(5)
	p := credentialSet{admin: admin, kinds: map[string]string{
		"access": admin.token, "expired": w.expired(ctx, t, w.people["admin"].token), "ingest": w.hidden["ingest token"],
		"deployment": w.hidden["deployment token"], "nonsense": "nonsense", "empty": "", "altered": admin.token[:len(admin.token)-4] + "AAAA",
		"unsigned": unsigned(t, admin.token),
	}}
	for _, kind := range []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice, secret.KindCode, secret.KindLease, secret.KindLink,
	} {
		p.kinds["forged "+kind] = unissuedToken(kind)
	}
	a := w.people["admin"].newSession(ctx, t, w.Installation, 6).login(ctx, t, w.Installation)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if strings.HasPrefix(c.Value, secret.KindRefresh+"_") {
			p.cookie, p.kinds["refresh"] = c.Name, c.Value
		}
	}
	require.NotEmpty(t, p.kinds["refresh"])
	p.kinds["of another audience"] = w.otherAudience(ctx, t, admin)
	o := objects{}
	w.fleet(ctx, t, o)
	var join struct {
		Token string `json:"token"`
	}
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/fleets/"+o["fleet_id"]+"/join-tokens", map[string]any{}, &join)
	var device struct {
		Code string `json:"device_code"`
	}
	w.people["nobody"].do(ctx, t, w.Installation, http.MethodPost, "/api/cli/device/code", map[string]any{}, &device)
	p.kinds["join"], p.kinds["device"] = join.Token, device.Code
	return p
}

// otherAudience returns an access token for the MCP resource. The person has granted it to an OAuth client.
func (w *harness) otherAudience(ctx context.Context, t *testing.T, p *person) string {
	t.Helper()
	const redirect, verifier = "http://127.0.0.1/back", "a-verifier-of-forty-three-characters-or-more"
	_, err := w.database(ctx, t).Exec(ctx, `INSERT INTO auth.oauth_client (id, name, redirect_uris, created_at)
		VALUES ('program', 'Program', $1, now())`, []string{redirect})
	require.NoError(t, err) // the API has no route that registers a client
	challenge := sha256.Sum256([]byte(verifier))
	resource := w.URL + "/api/mcp"
	if public := w.Processes["gateway"]; public != nil {
		resource = public.Setting("SERVICE_PUBLIC_URL") + "/api/mcp"
	}
	var decided struct {
		To string `json:"redirect_to"`
	}
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/oauth/authorize", map[string]any{
		"response_type": "code", "client_id": "program", "redirect_uri": redirect, "resource": resource, "approve": true,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	}, &decided)
	to, err := url.Parse(decided.To)
	require.NoError(t, err)
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {redirect}, "client_id": {"program"},
		"code_verifier": {verifier}, "resource": {resource},
	}
	a := w.people["nobody"].call(ctx, t, w.Installation, http.MethodPost, "/api/oauth/token", form.Encode())
	var issued struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, json.Unmarshal(a.body, &issued), "%s", a.body)
	_, claims := parts(t, issued.Token)
	require.Contains(t, fmt.Sprint(claims["aud"]), "/api/mcp")
	return issued.Token
}

// parts returns the header and the claims of a token.
func parts(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	segments := strings.Split(token, ".")
	require.Len(t, segments, 3)
	for i, into := range []*map[string]any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(segments[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, into))
	}
	return header, claims
}

func joined(t *testing.T, header, claims map[string]any) string {
	t.Helper()
	var segments []string
	for _, part := range []map[string]any{header, claims} {
		raw, err := json.Marshal(part)
		require.NoError(t, err)
		segments = append(segments, base64.RawURLEncoding.EncodeToString(raw))
	}
	return strings.Join(segments, ".")
}

// unsigned returns the token with the algorithm `none` and a placeholder instead of the signature.
func unsigned(t *testing.T, token string) string {
	t.Helper()
	header, claims := parts(t, token)
	header["alg"] = "none"
	return joined(t, header, claims) + "." + base64.RawURLEncoding.EncodeToString([]byte("-"))
}

// expired returns the token as if it had been issued a day earlier. It is signed with the installation's
// own key.
func (w *harness) expired(ctx context.Context, t *testing.T, token string) string {
	t.Helper()
	header, claims := parts(t, token)
	for _, name := range []string{"iat", "nbf", "exp"} {
		if at, ok := claims[name].(float64); ok {
			claims[name] = int64(at) - 24*60*60
		}
	}
	var sealed []byte
	kid := fmt.Sprint(header["kid"])
	require.NoError(t, w.database(ctx, t).QueryRow(ctx, `SELECT sealed FROM auth.signing_key WHERE kid = $1`, kid).Scan(&sealed))
	kept, err := os.ReadFile(w.dataFolder("keys/keyring", "etc/signalbox/secrets/keyring"))
	require.NoError(t, err)
	ring, err := secret.ParseKeyring(secret.New(string(kept)))
	require.NoError(t, err)
	seed, err := ring.Open(sealed, "signing_key.sealed:"+kid)
	require.NoError(t, err)
	key, err := authn.SigningKeyFromSeed(seed)
	require.NoError(t, err)
	text := joined(t, header, claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key.Private, []byte(text)))
}

// dataFolder returns the path of a folder with data of the installation. With a single process, this is `single` in
// the data folder of signalboxd. With one process per service, it is `split` in the folder of the installation.
func (w *harness) dataFolder(single, split string) string {
	if w.Processes["signalboxd"] != nil {
		return filepath.Join(w.Dir, "data", single)
	}
	return filepath.Join(w.Dir, split)
}

// database connects to the installation's database, to access data that no route exposes.
func (w *harness) database(ctx context.Context, t *testing.T) *pgx.Conn {
	t.Helper()
	dir := w.dataFolder("postgres", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	// The fourth line of the file is the port.
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + strings.Split(string(pid), "\n")[3], Path: "/signalbox",
	}
	conn, err := pgx.Connect(ctx, u.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	return conn
}
