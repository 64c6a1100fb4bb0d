package e2e

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// missingID returns a well-formed id with this prefix that does not exist.
func missingID(prefix string) string { return prefix + "_00000000000000000000000000" }

// issuedTokens holds a valid token of each kind. runID is the run to which the ingest token belongs, and deploymentID
// the deployment to which the deployment token belongs.
type issuedTokens struct {
	access, ingest, deployment, join string
	spare                            string // a second access token for the logout route
	runID, deploymentID              string
}

// issueTokens creates a token of each kind. The job of the ingest token runs until the test ends.
func issueTokens(ctx context.Context, t *testing.T, s *testenv.Installation) issuedTokens {
	t.Helper()
	l := s.Loop(ctx)
	var c issuedTokens
	for _, into := range []*string{&c.access, &c.spare} {
		var login struct {
			Token string `json:"token"`
		}
		body := map[string]string{"username": "admin", "password": s.Password.Reveal()}
		require.NoError(t, l.Client.Post(ctx, "/api/auth/login", body, &login))
		*into = login.Token
	}
	require.NoError(t, l.Client.Post(ctx, "/api/model-deployments", map[string]any{"name": l.Name}, &l.Deployment))
	require.NoError(t, l.MakeToken(ctx, "mine"))
	c.deployment, c.deploymentID = l.Token.Reveal(), l.Deployment.ID
	var fleet struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Post(ctx, "/api/fleets", map[string]any{"name": l.Name, "kind": "agent", "pools": []string{l.Name}}, &fleet))
	var join struct {
		Token string `json:"token"`
	}
	require.NoError(t, l.Client.Post(ctx, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join))
	c.join = join.Token
	c.ingest, c.runID = ingestToken(ctx, t, s, l)
	return c
}

// ingestToken submits a job whose command writes its ingest token to a file. It returns the token and the
// id of the run.
func ingestToken(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) (token, run string) {
	t.Helper()
	const name = "given-away"
	submitCommand(ctx, t, l, "sh", "-c", `printf %s "$SERVICE_JOB_TOKEN" > "$SERVICE_JOB_WORKDIR/`+name+`.new" &&
		mv "$SERVICE_JOB_WORKDIR/`+name+`.new" "$SERVICE_JOB_WORKDIR/`+name+`"; exec sleep 600`)
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(s.Find(name, func(string) bool { return true }))
		token = string(raw)
		return token != ""
	}, 30*time.Second, 100*time.Millisecond, "the command does not run: %s", s.Tail())
	t.Cleanup(func() { _ = l.Client.Post(context.WithoutCancel(ctx), "/api/jobs/"+l.Job.ID+"/stop", nil, nil) })
	return token, l.Job.RunID
}

// fillPath replaces the variables in the pattern of a route by values that identify nothing. A path of the engine of a
// deployment gets the given deployment.
func fillPath(rt route.Route, deployment string) string {
	return routes.Load().Fill(rt.Pattern, func(v routes.Variable) string {
		if v.Name == "deployment_id" && strings.HasPrefix(rt.Pattern, "/inference/") {
			return deployment
		}
		return v.Absent
	})
}

func methodOf(rt route.Route) string {
	if rt.Method == "*" {
		return http.MethodGet
	}
	return rt.Method
}

// requireTokenKinds sends every kind of token to every route that requires a credential.
func requireTokenKinds(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	tokens := map[string]string{"user": c.access, "ingest": c.ingest, "deployment": c.deployment, "join": c.join, "none": "", "nonsense": "abc"}
	for _, rt := range drawnRoutes(t) {
		if rt.Credential == "none" || rt.Credential == "signature" {
			continue
		}
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			for kind, token := range tokens {
				if kind == "user" && rt.Pattern == "/api/auth/logout" {
					token = c.spare
				}
				r := request(ctx, t, s, token, methodOf(rt), fillPath(rt, c.deploymentID), "")
				if kind == rt.Credential {
					require.NotEqual(t, http.StatusUnauthorized, r.Status, "%s: %s", kind, r.Body)
					if rt.Credential == "deployment" {
						// The token is valid, but no revision is promoted. No other error may occur.
						require.Equal(t, http.StatusServiceUnavailable, r.Status, "%s: %s", kind, r.Body)
						require.Equal(t, "no_ready_revision", r.Code, "%s: %s", kind, r.Body)
						continue
					}
					require.Less(t, r.Status, 500, "%s: %s", kind, r.Body)
					continue
				}
				require.Equal(t, http.StatusUnauthorized, r.Status, "%s: %s", kind, r.Body)
			}
		})
	}
	t.Run("signed URLs", func(t *testing.T) {
		for kind, token := range tokens {
			r := request(ctx, t, s, token, http.MethodGet, "/api/blobs/projects/x", "")
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, r.Status, "%s: %s", kind, r.Body)
		}
	})
	t.Run("both ingest headers must agree", func(t *testing.T) { requireMatchingHeaders(ctx, t, s, c) })
}

func requireMatchingHeaders(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	for _, tc := range []struct {
		own, bearer string
		want        int
	}{
		{c.ingest, "", http.StatusOK},
		{c.ingest, c.ingest, http.StatusOK},
		{c.ingest, c.access, http.StatusUnauthorized},
		{c.access, c.ingest, http.StatusUnauthorized},
		{c.access, "", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/ingest/watermark?run_id="+c.runID, nil)
		require.NoError(t, err)
		req.Header.Set("X-Service-Token", tc.own)
		if tc.bearer != "" {
			req.Header.Set("Authorization", "Bearer "+tc.bearer)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, tc.want, resp.StatusCode)
	}
}
