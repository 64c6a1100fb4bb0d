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

// sign is by what others' notice of a victim's absence is seen: a call that meets it, and where one keeps
// a line to the victim, what it writes when the line breaks.
type sign struct {
	route string // a GET that the victim answers
	log   string // whose log
	line  string
}

// path is the route with ids that nothing has: whose they are is not what is asked.
func (s sign) path() string {
	const none = "_00000000000000000000000000"
	return strings.NewReplacer("{id}", "run"+none, "{deployment_id}", "dep"+none).Replace(s.route)
}

// signs of every process; the gateway's and the one process's absence any caller meets.
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

// strike kills the row's victim. Where the row says so, the victim stays away until others have noticed;
// otherwise it is back at once. What was held is let go when the victim is dead.
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
		s.Until(ctx, "a caller meets the absence of "+r.victim, func() bool { return meets(ctx, l, seen.path()) })
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

// meets tells that a call fails as it does when a process is away: no answer at all, or the gateway's word
// that it has none.
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
