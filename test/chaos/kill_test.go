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

// symptom describes how others notice that a process is down. A request to it fails. If another process has a
// connection to it, that process logs a message when the connection breaks.
type symptom struct {
	route string // a GET route that the killed process serves
	log   string // the process that logs the message line
	line  string
}

// path returns the path of the route, with ids that do not exist.
func (s symptom) path() string {
	const none = "_00000000000000000000000000"
	return strings.NewReplacer("{id}", "run"+none, "{deployment_id}", "dep"+none).Replace(s.route)
}

// symptoms returns the symptom of each process. The gateway and signalboxd need none in the log: if they are
// down, every request fails.
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

// killProcess kills the row's process and then calls release. It restarts the process at once or, if row.late is
// set, after others have noticed that the process is down.
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
		s.Until(ctx, "a call fails in the absence of "+r.process, func() bool { return requestFails(ctx, l, seen.path()) })
	}
	if seen.log != "" {
		s.Until(ctx, seen.log+" notices the absence of "+r.process, func() bool {
			return strings.Contains(s.Processes[seen.log].Log()[before:], seen.line)
		})
	}
	if r.process == "signalboxd" {
		s.StartSingle()
		return
	}
	s.Processes[r.process].Start()
}

// requestFails reports whether a request fails as it does while a process is down: without a response, or with
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
