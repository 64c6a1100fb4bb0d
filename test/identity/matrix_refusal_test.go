package identity

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// TestCells_refusals checks that the matrix calls each route that is not public without a credential, also those that every
// user may call, and that it accepts no other response than the refusal that the rule names.
func TestCells_refusals(t *testing.T) {
	t.Parallel()
	w, persons := &harness{}, 0
	answer := func(status int) response { return response{status: status, body: []byte(`{"detail": "words"}`)} }
	for _, r := range routes.Load().Rows {
		want := map[string]string{}
		for _, c := range cells(r) {
			want[c.relation] = c.want
			if c.relation == "nobody" && c.want == "401" {
				assert.Empty(t, w.fault(c, answer(http.StatusUnauthorized)))
				for _, status := range []int{http.StatusOK, http.StatusNoContent, http.StatusForbidden, http.StatusNotFound} {
					assert.NotEmpty(t, w.fault(c, answer(status)), "%s %d", c.Name(), status)
				}
			}
		}
		if r.Rule != "public" {
			assert.Contains(t, []string{"401", "refused"}, want["nobody"], r.Name())
		}
		if r.Rule != "person" {
			continue
		}
		persons++
		assert.Equal(t, []string{"401", "403", "ok"}, []string{want["nobody"], want["newcomer"], want["seen"]}, r.Name())
		requireAccessTokenOnly(t, r)
	}
	require.Greater(t, persons, 10)
}

// requireAccessTokenOnly checks that only 401 is accepted as the response to any credential but an access token: the tokens of
// runs and deployments are of the wrong kind, which is never 403.
func requireAccessTokenOnly(t *testing.T, r routes.Row) {
	t.Helper()
	accepted := acceptedPlaces(t)
	for _, kind := range []string{"access", "ingest", "deployment", "refresh"} {
		for _, place := range credentialPlaces() {
			open := accepted[class(r)+" "+kind][place]
			assert.Equal(t, kind == "access" && open, open, "%s accepts %s as %s", r.Name(), kind, place)
			if open {
				continue
			}
			assert.Empty(t, verdict(r, response{status: http.StatusUnauthorized}, http.StatusUnauthorized, false))
			for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity} {
				assert.NotEmpty(t, verdict(r, response{status: status}, http.StatusUnauthorized, false), "%s %s as %s: %d", r.Name(), kind, place, status)
			}
		}
	}
}
