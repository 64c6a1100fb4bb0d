package identity

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
)

// credentialTable is the hand-written table of the routes that accept each kind of credential.
//
//go:embed testdata/credentials.txt
var credentialTable string

// credentialPlaces returns the parts of a request that may contain a credential, in the order of the table's columns.
func credentialPlaces() []string {
	return []string{"bearer", "token", "both", "other", "twice", "basic", "query", "cookie", "key"}
}

// acceptedPlaces parses the table of credentials. For each class of routes with a kind of credential, it returns the
// places in which that credential is accepted.
func acceptedPlaces(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for line := range strings.Lines(credentialTable) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		require.Len(t, fields, len(credentialPlaces())+2, line)
		for i, place := range credentialPlaces() {
			key := fields[0] + " " + fields[1]
			if out[key] == nil {
				out[key] = map[string]bool{}
			}
			require.Contains(t, []string{"yes", "no"}, fields[i+2])
			out[key][place] = fields[i+2] == "yes"
		}
	}
	return out
}

// class returns the class of the route in the table of credentials.
func class(r routes.Row) string {
	if slices.Contains([]string{"public", "run-token", "deployment-token", "cookie", "join-token", "signature"}, r.Rule) {
		return r.Rule
	}
	return "person"
}

// usesPlace reports whether a route without bearer authentication uses this place for another purpose: for
// query parameters, or for the name of an OAuth client.
func usesPlace(r routes.Row, place string) bool {
	switch class(r) {
	case "public":
		return place == "query" || place == "basic" && strings.HasPrefix(r.Pattern, "/api/oauth/")
	case "cookie", "join-token":
		return place == "query"
	default:
		return false
	}
}

// putCredential puts a credential into the given place of a request.
func putCredential(r *http.Request, place, credential, another, cookie string) {
	switch place {
	case "bearer":
		r.Header.Set("Authorization", "Bearer "+credential)
	case "token":
		r.Header.Set("X-Service-Token", credential)
	case "both":
		r.Header.Set("Authorization", "Bearer "+credential)
		r.Header.Set("X-Service-Token", credential)
	case "other":
		r.Header.Set("Authorization", "Bearer "+credential)
		r.Header.Set("X-Service-Token", another)
	case "twice":
		r.Header["Authorization"] = []string{"Bearer " + credential, "Bearer " + credential}
	case "basic":
		r.SetBasicAuth(credential, credential)
	case "query":
		q := url.Values{}
		for _, name := range []string{"token", "access_token", "authorization", "api_key", "x-service-token"} {
			q.Set(name, credential)
		}
		r.URL.RawQuery = q.Encode()
	case "cookie":
		for _, name := range []string{cookie, "token", "access_token", "Authorization", "X-Service-Token", "session"} {
			r.AddCookie(&http.Cookie{Name: name, Value: credential})
		}
	default:
		r.Header.Set("X-Api-Key", credential)
	}
}

// credentialSet holds the credentials of the matrix by kind: a valid credential of each kind, and some that are not
// valid.
type credentialSet struct {
	kinds  map[string]string
	cookie string // the name of the refresh cookie
	admin  *person
}

// served returns the route of a row, for draw.Routes.
func served(r routes.Row) []string { return []string{r.Served()} }

// requireCredentialPlaces calls each route with each credential in each place.
func (w *harness) requireCredentialPlaces(ctx context.Context, t *testing.T) {
	t.Helper()
	p := w.makeCredentials(ctx, t)
	var requests atomic.Int64
	all := routes.Load().Rows
	rows := draw.Routes(t, rowShare, all, routes.Row.Name, served)
	t.Run("routes", func(t *testing.T) {
		for _, r := range rows {
			t.Run(r.Name(), func(t *testing.T) {
				t.Parallel()
				requests.Add(w.callWithEachCredential(ctx, t, p, r))
			})
		}
	})
	require.Greater(t, requests.Load(), int64(20000*len(rows)/len(all)/2))
	if draw.Whole() {
		require.Greater(t, requests.Load(), int64(20000))
	}
	t.Run("deployment token on another deployment", func(t *testing.T) { w.requireOtherDeploymentsRefused(ctx, t) })
	t.Logf("sent %d requests", requests.Load())
}

// requireOtherDeploymentsRefused calls deployments with their own token and with valid tokens for other deployments.
func (w *harness) requireOtherDeploymentsRefused(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		of, on string
		want   int
	}{
		{w.hidden["deployment token"], w.hidden["deployment_id"], http.StatusServiceUnavailable}, // no revision is promoted
		{w.open["deployment token"], w.hidden["deployment_id"], http.StatusForbidden},
		{w.hidden["deployment token"], w.open["deployment_id"], http.StatusForbidden},
		{w.open["deployment token"], missingID("deployment_id"), http.StatusNotFound},
	} {
		a := w.people["presenter"].send(ctx, t, w.Installation, http.MethodGet, "/inference/"+c.on+"/v1/models", "", func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+c.of)
		})
		require.Equal(t, c.want, a.status, "%s: %s", c.on, a.body)
	}
}

// callWithEachCredential calls a route with each credential in each place. It returns the number of calls.
func (w *harness) callWithEachCredential(ctx context.Context, t *testing.T, p credentialSet, r routes.Row) (requests int64) {
	t.Helper()
	table, anonymous := acceptedPlaces(t), w.callRoute(ctx, t, r, func(*http.Request) {}).status
	for kind, credential := range p.kinds {
		for _, place := range credentialPlaces() {
			if usesPlace(r, place) {
				continue
			}
			open := table[class(r)+" "+kind][place]
			if open && r.Pattern == "/api/auth/logout" {
				credential = p.admin.newSession(ctx, t, w.Installation, 7).token
			}
			a := w.callRoute(ctx, t, r, func(req *http.Request) { putCredential(req, place, credential, p.other(kind), p.cookie) })
			assert.Empty(t, verdict(r, a, anonymous, open), "%s %s with %s as %s", r.Method, r.Pattern, kind, place)
			requests++
		}
	}
	return requests
}

// other returns a valid credential of another kind, to be sent in a second header.
func (p credentialSet) other(kind string) string {
	if kind == "deployment" {
		return p.kinds["access"]
	}
	return p.kinds["deployment"]
}

// verdict describes the problem with a response, or returns "" if the response is correct.
func verdict(r routes.Row, a response, anonymous int, open bool) string {
	refused := a.status == http.StatusUnauthorized || class(r) == "signature" && a.status == http.StatusForbidden
	switch {
	case a.status >= 500 && a.status != http.StatusNotImplemented && a.status != http.StatusServiceUnavailable:
		return fmt.Sprintf("the status is %d %.200s", a.status, a.body)
	case open && (refused || a.status == http.StatusForbidden):
		return fmt.Sprintf("the valid credential is rejected: %d %.200s", a.status, a.body)
	case open:
		return ""
	case class(r) == "public" && a.status != anonymous:
		return fmt.Sprintf("the status is %d, but without a credential %d: %.200s", a.status, anonymous, a.body)
	case class(r) != "public" && !refused:
		return fmt.Sprintf("the credential is accepted: %d %.200s", a.status, a.body)
	}
	return ""
}

// callRoute calls a route with ids that do not exist, except for the deployment and the run to which the credentials
// belong.
func (w *harness) callRoute(ctx context.Context, t *testing.T, r routes.Row, change func(*http.Request)) response {
	t.Helper()
	path := routes.Load().Fill(r.Pattern, func(v routes.Variable) string {
		if v.Name == "deployment_id" && class(r) == "deployment-token" {
			return w.hidden["deployment_id"]
		}
		return v.Absent
	})
	body := ""
	if r.Request != "" {
		body = "{}"
	}
	if class(r) == "join-token" {
		body = strings.Replace(r.Request, "<join-token>", unissuedToken(secret.KindFleetJoin), 1)
	}
	if r.Pattern == "/api/ingest/watermark" {
		path += "?run_id=" + w.hidden["run_id"]
	}
	who := w.people["presenter"]
	if strings.Contains(r.Pattern, "/device") {
		who = at(int(5000 + w.devices.Add(1))) // the number of calls per address is limited
	}
	return who.send(ctx, t, w.Installation, r.Method, path, body, change)
}
