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

// sign is how the absence of a victim shows: a call that fails, and, if another process keeps a connection to the victim,
// what that process logs when the connection breaks.
type sign struct {
	route string // a GET that the victim serves
	log   string // the process that logs the line
	line  string
}

// path returns the route with ids that do not exist; they only complete the path.
func (s sign) path() string {
	const none = "_00000000000000000000000000"
	return strings.NewReplacer("{id}", "run"+none, "{deployment_id}", "dep"+none).Replace(s.route)
}

// signs returns the sign of every process. The absence of gateway and signalboxd shows to any caller.
func signs() map[string]sign {
	const lineLost = "connection to the control plane lost"
	return map[string]sign{
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

// strike kills the row's victim. If the row is an absence, the victim is restarted only after others have noticed;
// otherwise at once. release is called when the victim is dead.
func strike(ctx context.Context, t *testing.T, s *testenv.Stand, r row, l *e2eflow.Loop, release func()) {
	t.Helper()
	seen := sign{}
	before := 0
	if r.away {
		seen = signs()[r.victim]
		require.NotEmpty(t, seen)
	}
	if seen.log != "" {
		before = len(s.Processes[seen.log].Log())
	}
	s.Processes[r.victim].Kill()
	release()
	if seen.route != "" {
		s.Until(ctx, "a call fails in the absence of "+r.victim, func() bool { return meets(ctx, l, seen.path()) })
	}
	if seen.log != "" {
		s.Until(ctx, seen.log+" notices the absence of "+r.victim, func() bool {
			return strings.Contains(s.Processes[seen.log].Log()[before:], seen.line)
		})
	}
	if r.victim == "signalboxd" {
		s.StartSingle()
		return
	}
	s.Processes[r.victim].Start()
}

// meets reports whether a call fails as it does in the absence of a process: no response at all, or a gateway error
// that the service does not respond.
func meets(ctx context.Context, l *e2eflow.Loop, path string) bool {
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
