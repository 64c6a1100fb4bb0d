// Package fronttest serves calls to engines over the two fronts that the inference service has: relayed without net/http's
// server, and through it. Both must pass the same tests.
package fronttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// variable is the environment variable that selects the front.
const variable = "SIGNALBOX_TEST_FRONT"

// Main runs the tests of a package over both fronts.
func Main(m *testing.M) (code int) {
	for _, front := range []string{"on", "off"} {
		if err := os.Setenv(variable, front); err != nil {
			panic(err)
		}
		if code = m.Run(); code != 0 {
			println("the tests ran with SERVICE_INFERENCE_FAST=" + front)
			return code
		}
	}
	return code
}

// Fast returns the value of SERVICE_INFERENCE_FAST for the current run.
func Fast() string {
	if os.Getenv(variable) == "off" {
		return "off"
	}
	return "on"
}

// Serve starts a server with the handler, whose connections are guarded as those of the gateway are. If the handler is also
// a relay and Fast returns "on", it relays plain requests.
func Serve(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	l, err := httpguard.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0")
	require.NoError(t, err)
	guarded := httpguard.JSONErrors(l, func() string { return "req_front" })
	if relay, ok := handler.(httprelay.Relay); ok && Fast() == "on" {
		guarded.Relay(httpguard.Relaying{Relay: relay, Idle: time.Minute, Head: time.Minute})
	}
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close() // it was not used
	s.Listener, s.Config.ConnState = guarded, httpguard.State
	s.Start()
	return s
}
