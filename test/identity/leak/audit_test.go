package leak

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// changingRoutes returns the user routes whose method is not GET or HEAD.
func changingRoutes() []routes.Row {
	var all []routes.Row
	for _, r := range routes.Load().Routes() {
		if routes.Changing(r.Route) {
			all = append(all, r)
		}
	}
	return all
}

// matches returns the number of literal segments in the pattern, and whether the path matches the pattern.
func matches(pattern, path string) (literal int, ok bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return 0, false
	}
	for i, word := range want {
		switch {
		case strings.HasPrefix(word, "{"):
		case word == have[i]:
			literal++
		default:
			return 0, false
		}
	}
	return literal, true
}

// routeOf returns the changing route that a call matches. ok is false if it matches none.
func routeOf(c call) (best routes.Row, ok bool) {
	most := -1
	for _, r := range changingRoutes() {
		if n, matched := matches(r.Pattern, c.path); matched && r.Method == c.method && n > most {
			best, ok, most = r, true, n
		}
	}
	return best, ok
}

// auditRow is a row of the audit log as the API returns it.
type auditRow struct {
	ID        string  `json:"id"`
	At        string  `json:"at"`
	Service   string  `json:"service"`
	ActorKind string  `json:"actor_kind"`
	ActorID   *string `json:"actor_id"`
	Action    string  `json:"action"`
	RequestID *string `json:"request_id"`
}

// auditRows reads all rows of the audit log page by page.
func (h *installation) auditRows(ctx context.Context, t *testing.T) []auditRow {
	t.Helper()
	var all []auditRow
	for {
		var page []auditRow
		require.NoError(t, h.admin.Get(ctx, fmt.Sprintf("/api/admin/audit?limit=40&offset=%d", len(all)), nil, &page))
		if all = append(all, page...); len(page) < 40 {
			return all
		}
	}
}

// requireAuditRows requires an audit row with the request id and the user for each successful call that
// changed data. It also requires that every changing route was called.
func (h *installation) requireAuditRows(ctx context.Context, t *testing.T) {
	t.Helper()
	byRequest := map[string][]auditRow{}
	rows := h.auditRows(ctx, t)
	seen := map[string]bool{}
	for i, r := range rows {
		require.False(t, seen[r.ID], "no row may appear twice")
		seen[r.ID] = true
		if i > 0 {
			require.True(t, rows[i-1].At >= r.At, "the newest row must come first")
		}
		if r.RequestID != nil {
			byRequest[*r.RequestID] = append(byRequest[*r.RequestID], r)
		}
	}
	called := map[string]bool{}
	for _, c := range h.calls.all() {
		r, changes := routeOf(c)
		if !changes || c.status >= 300 {
			continue
		}
		called[r.Served()] = true
		require.Empty(t, auditFault(r, c.subject, byRequest[c.requestID]))
	}
	var missing []string
	for _, r := range changingRoutes() {
		if !called[r.Served()] {
			missing = append(missing, r.Served())
		}
	}
	require.Empty(t, missing, "each changing route must be called successfully; called routes: %v", slices.Sorted(maps.Keys(called)))
	services := map[string]bool{}
	for _, r := range rows {
		services[r.Service] = true
	}
	require.Subset(t, slices.Collect(maps.Keys(services)), []string{"auth", "jobs", "registry"})
}

// auditFault states what is wrong with the audit rows of a successful call by a user, or with the word unaudited of its route.
// It returns "" if nothing is.
func auditFault(r routes.Row, subject string, rows []auditRow) string {
	audited := slices.ContainsFunc(rows, func(a auditRow) bool {
		return a.ActorKind == "user" && a.ActorID != nil && *a.ActorID == subject
	})
	switch {
	case audited && r.Unaudited != "":
		return fmt.Sprintf("%s has the word unaudited=%q, but leaves the audit rows %v: remove the word (test/contract/routes/routes.txt)", r.Served(), r.Unaudited, rows)
	case !audited && r.Unaudited == "":
		return fmt.Sprintf("%s by %s has no audit row of this user; the rows of the request are %v", r.Served(), subject, rows)
	}
	return ""
}

func TestAuditFault(t *testing.T) {
	t.Parallel()
	ada, eve := "usr_ada", "usr_eve"
	changes := routes.Row{Route: route.Route{Method: http.MethodPost, Pattern: "/api/runs/search"}}
	reads := changes
	reads.Unaudited = "it only reads"
	for _, tc := range []struct {
		row   routes.Row
		rows  []auditRow
		wrong string
	}{
		{changes, []auditRow{{ActorKind: "user", ActorID: &ada}}, ""},
		{changes, nil, "POST /api/runs/search by usr_ada has no audit row of this user"},
		{changes, []auditRow{{ActorKind: "user", ActorID: &eve}}, "has no audit row of this user"},
		{changes, []auditRow{{ActorKind: "service", ActorID: &ada}}, "has no audit row of this user"},
		{reads, nil, ""},
		{reads, []auditRow{{ActorKind: "service"}}, ""},
		{reads, []auditRow{{ActorKind: "user", ActorID: &ada}}, `POST /api/runs/search has the word unaudited="it only reads", but leaves the audit rows`},
	} {
		found := auditFault(tc.row, ada, tc.rows)
		require.Contains(t, found, tc.wrong)
		require.Equal(t, tc.wrong == "", found == "", found)
	}
}

// callOtherRoutes calls the changing routes that the rest of the test does not call.
func (h *installation) callOtherRoutes(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ada := h.newUser(ctx, t)
	do := func(c *client.Client, method, path string, body any) {
		t.Helper()
		require.NoError(t, c.Do(ctx, method, path, body, nil), "%s %s", method, path)
	}
	h.groups(ctx, t, ada.name)
	h.grantOAuth(ctx, t, conn)
	h.changeFleet(ctx, t)
	gone := h.newUser(ctx, t)
	do(h.admin, http.MethodPatch, "/api/admin/users/"+gone.id, map[string]any{"disabled": true})
	do(h.admin, http.MethodPost, "/api/admin/users/"+gone.id+"/transfer", map[string]any{"to_user_id": h.adminID(ctx, t)})
	do(h.admin, http.MethodPut, "/api/admin/settings/installation.announcement", map[string]any{"value": "Closed on Sunday", "version": 0})
	kept := "kept-" + randomName(t) + randomName(t)
	h.credentialStore.add("secret of a setting", kept)
	do(h.admin, http.MethodPut, "/api/admin/settings/oidc.client_secret", map[string]any{"value": kept, "version": 0})
	do(h.admin, http.MethodPost, "/api/admin/keys/rotate", map[string]any{"purpose": "access"})
	do(h.admin, http.MethodPut, "/api/quota/users/"+ada.name, map[string]any{"gpu_limit": 2})
	do(h.admin, http.MethodPost, "/api/admin/audit/verify", map[string]any{})
	do(h.admin, http.MethodPost, "/api/admin/agent/llm-test", nil)
	do(h.admin, http.MethodPost, "/api/admin/maintenance", map[string]any{"mode": "maintenance", "message": "Closed on Sunday"})
	do(h.admin, http.MethodPost, "/api/admin/maintenance", map[string]any{"mode": "off"})
	do(ada.client, http.MethodPatch, "/api/profile", map[string]any{"tz": "Europe/Berlin"})
	do(ada.signInAgain(ctx, t, h), http.MethodDelete, "/api/profile/sessions", nil)
	last := ada.signInAgain(ctx, t, h)
	var sessions []struct {
		ID      string
		Current bool
	}
	require.NoError(t, last.Get(ctx, "/api/profile/sessions", nil, &sessions))
	for _, s := range sessions {
		if !s.Current {
			do(last, http.MethodDelete, "/api/profile/sessions/"+s.ID, nil)
		}
	}
	do(last, http.MethodPost, "/api/auth/logout", nil)
	do(h.admin, http.MethodDelete, "/api/model-deployments/"+h.loop.Deployment.ID+"/tokens/"+h.loop.TokenID, nil)
	require.NoError(t, h.loop.Revise(ctx, h.version, nil))
	require.NoError(t, h.loop.StopRevision(ctx, h.loop.Revision))
	h.catalog(ctx, t)
	h.trustRecipe(ctx, t)
	h.createModel(ctx, t)
}

func (h *installation) adminID(ctx context.Context, t *testing.T) string {
	t.Helper()
	var users []struct{ ID, Username string }
	require.NoError(t, h.admin.Get(ctx, "/api/admin/users", nil, &users))
	for _, u := range users {
		if u.Username == "admin" {
			return u.ID
		}
	}
	require.FailNow(t, "the user admin does not exist")
	return ""
}

// groups creates a team and a project, changes them and their members, and deletes the team.
func (h *installation) groups(ctx context.Context, t *testing.T, member string) {
	t.Helper()
	for kind, role := range map[string]string{"teams": "member", "projects": "viewer"} {
		key := "k" + randomName(t)
		var created struct{ ID string }
		require.NoError(t, h.admin.Post(ctx, "/api/"+kind, map[string]any{"key": key, "name": "Speech"}, &created))
		at := "/api/" + kind + "/" + created.ID
		require.NoError(t, h.admin.Do(ctx, http.MethodPatch, at, map[string]any{"name": "Speech and sound"}, nil))
		require.NoError(t, h.admin.Do(ctx, http.MethodPut, at+"/members/"+member, map[string]any{"role": role}, nil))
		require.NoError(t, h.admin.Do(ctx, http.MethodDelete, at+"/members/"+member, nil, nil))
		if kind == "teams" {
			require.NoError(t, h.admin.Do(ctx, http.MethodDelete, at, nil, nil))
		}
	}
}

// newUser is a user that an admin has created. The user has already replaced the first password.
type newUser struct {
	id, name, password string
	recorder           *recorder
	client             *client.Client
}

func (h *installation) newUser(ctx context.Context, t *testing.T) *newUser {
	t.Helper()
	h.people++
	n := &newUser{name: "eve-" + randomName(t), password: "own-" + randomName(t), recorder: newRecorder(h.credentialStore, h.calls, 1+h.people)}
	var created struct {
		User     struct{ ID string }
		Password string
	}
	require.NoError(t, h.admin.Post(ctx, "/api/admin/users", map[string]any{"username": n.name, "role": "operator"}, &created))
	n.id = created.User.ID
	temporary := &newUser{name: n.name, password: created.Password, recorder: n.recorder}
	change := map[string]string{"current_password": created.Password, "new_password": n.password}
	require.NoError(t, temporary.signInAgain(ctx, t, h).Post(ctx, "/api/profile/password", change, nil))
	n.client = n.signInAgain(ctx, t, h)
	return n
}

// signInAgain signs the user in again and returns a client with the new access token.
func (n *newUser) signInAgain(ctx context.Context, t *testing.T, h *installation) *client.Client {
	t.Helper()
	var in struct{ Token string }
	c := client.New(h.URL, n.recorder)
	require.NoError(t, c.Post(ctx, "/api/auth/login", map[string]string{"username": n.name, "password": n.password}, &in))
	return c.With(secret.New(in.Token))
}

// subjectOf returns the subject of an access token.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Subject
}

// grantOAuth inserts an OAuth client, approves it as a user and exchanges the code for tokens as the client.
func (h *installation) grantOAuth(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	const id, redirect = "https://program.example/client", "http://127.0.0.1:1/back"
	_, err := conn.Exec(ctx, `INSERT INTO auth.oauth_client (id, name, redirect_uris, created_at) VALUES ($1, 'Program', $2, now())`, id, []string{redirect})
	require.NoError(t, err)
	verifier := randomName(t) + randomName(t) + randomName(t) + randomName(t)
	digest := sha256.Sum256([]byte(verifier))
	h.credentialStore.add("code verifier", verifier)
	var decided struct {
		To string `json:"redirect_to"`
	}
	require.NoError(t, h.admin.Post(ctx, "/api/oauth/authorize", map[string]any{
		"response_type": "code", "client_id": id, "redirect_uri": redirect, "code_challenge": base64.RawURLEncoding.EncodeToString(digest[:]),
		"code_challenge_method": "S256", "resource": h.URL + "/api/mcp", "state": "s", "approve": true,
	}, &decided))
	to, err := url.Parse(decided.To)
	require.NoError(t, err)
	code := to.Query().Get("code")
	require.NotEmpty(t, code, decided.To)
	h.credentialStore.add("authorization code", code)
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {id}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		"resource": {h.URL + "/api/mcp"},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/api/oauth/token", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := h.recorder.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
