package chaos

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// symptom describes how a test notices that a process is down: a request to the route fails, or another process,
// which was connected to the killed one, logs a line. The fields of a sign that does not occur are empty.
type symptom struct {
	route string // a GET route that the killed process serves
	log   string // name of the process that logs the line
	line  string // part of the logged line
}

// path returns the path of the route, with ids that do not exist.
func (s symptom) path() string {
	const none = "_00000000000000000000000000"
	return strings.NewReplacer("{id}", "run"+none, "{deployment_id}", "dep"+none).Replace(s.route)
}

// symptoms returns the symptom of each process.
func symptoms() map[string]symptom {
	const lineLost = "connection to the control plane lost"
	return map[string]symptom{
		"auth":       {route: "/api/auth/me"},
		"jobs":       {route: "/api/jobs", log: "agent", line: lineLost},
		"ingest":     {route: "/api/runs/{id}/metrics", log: "gateway", line: "service cannot be reached"},
		"registry":   {route: "/api/models", log: "inference", line: "snapshot stream from the registry lost"},
		"inference":  {route: "/api/model-deployments/{deployment_id}/traffic"},
		"gateway":    {route: "/healthz"},
		"agent":      {log: "jobs", line: `AgentService/Connect"`},
		"signalboxd": {route: "/healthz"},
	}
}

// killProcess kills the row's process and then calls the function release. It restarts the process at once or, if
// r.late is set, after the symptom of the process has appeared.
func killProcess(ctx context.Context, t *testing.T, s *testenv.Installation, r row, l *e2eflow.Loop, release func()) {
	t.Helper()
	seen := symptom{}
	before := 0
	if r.late {
		seen = symptoms()[r.process]
		require.NotEmpty(t, seen)
	}
	if seen.log != "" {
		before = len(s.Processes[seen.log].Log())
	}
	s.Processes[r.process].Kill()
	release()
	if seen.route != "" {
		s.Until(ctx, "a request fails because "+r.process+" is down", func() bool { return requestFails(ctx, l, seen.path()) })
	}
	if seen.log != "" {
		s.Until(ctx, seen.log+" logs that "+r.process+" is down", func() bool {
			return strings.Contains(s.Processes[seen.log].Log()[before:], seen.line)
		})
	}
	if r.process == "signalboxd" {
		s.StartSingle()
		return
	}
	s.Processes[r.process].Start()
}

// requestFails sends a GET request and reports whether it fails as if a process were down: without a response, or with
// status 502, 503 or 504.
func requestFails(ctx context.Context, l *e2eflow.Loop, path string) bool {
	a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return ctx.Err() == nil
	}
	switch a.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
