package inference_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// scrape returns the value of each series of /metrics, keyed by its name with its labels.
func (r *harness) scrape() map[string]float64 {
	r.t.Helper()
	w := httptest.NewRecorder()
	obs.NewAdmin(r.obs, clock.Real(), nil).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(r.t, http.StatusOK, w.Code)
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[series] = v
		}
	}
	return out
}

// about returns a series of the metrics of a deployment.
func about(name, deployment string) string { return name + `{deployment_id="` + deployment + `"}` }

const (
	callsInFlight = "inference_calls_in_flight"
	callDurations = "inference_call_duration_seconds_count"
	firstTokens   = "inference_time_to_first_token_seconds_count"
)

// awaitFlights waits until the given number of calls of a deployment is in flight.
func (r *harness) awaitFlights(deployment string, want float64) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		got, ok := r.scrape()[about(callsInFlight, deployment)]
		return ok && got == want
	}, limit, time.Millisecond, "%g calls of %s must be in flight", want, deployment)
}

func TestMetricsByDeployment(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	plain := newEngine(t, always(httpResponse("200 OK", "application/json", okJSON)))
	r, a, b := open(t), newToken(t, "a"), newToken(t, "b")
	both := list(a, b)
	r.ready(served(deploymentA, both[:1], newEngine(t, s.play)), served(deploymentB, both[1:], plain))
	_, in := r.stream(a.text)
	s.words <- "a"
	require.Equal(t, "a", event(t, in))
	for range 3 {
		require.Equal(t, okJSON, text(t, r.do(http.MethodPost, "/inference/"+deploymentB+chat, b.text, `{"model":"m"}`)))
	}
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentB+chat, a.text, "{}"), 403, "token_of_another_deployment")
	r.awaitFlights(deploymentB, 0)
	got := r.scrape()
	require.InDelta(t, 1, got[about(callsInFlight, deploymentA)], 0)
	require.Zero(t, got[about(callDurations, deploymentA)])
	require.InDelta(t, 3, got[about(callDurations, deploymentB)], 0)
	require.InDelta(t, 3, got[about(firstTokens, deploymentB)], 0)
	require.InDelta(t, 3, got[`inference_call_duration_seconds_bucket{deployment_id="`+deploymentB+`",le="600"}`], 0)
	require.Positive(t, got[about("inference_call_duration_seconds_sum", deploymentB)])
	close(s.words)
	_, err := io.ReadAll(in)
	require.NoError(t, err)
	r.awaitFlights(deploymentA, 0)
	got = r.scrape()
	require.InDelta(t, 1, got[about(callDurations, deploymentA)], 0)
	require.InDelta(t, 3, got[outcomes(deploymentB, "ok")], 0)
	require.InDelta(t, 1, got[outcomes(deploymentA, "ok")], 0)
	require.Contains(t, got, outcomes(deploymentA, "engine_error"), "an outcome must be a series before it occurs")
	way, other := "usual", "fast"
	if r.cfg.Fast == "on" {
		way, other = other, way
	}
	require.InDelta(t, 4, got[`inference_calls_relayed_total{way="`+way+`"}`], 0)
	require.Contains(t, got, `inference_calls_relayed_total{way="`+other+`"}`)
	require.Zero(t, got[`inference_calls_relayed_total{way="`+other+`"}`])

	r.registry.await(t, r.registry.push(served(deploymentA, both[:1], plain)))
	for series := range r.scrape() {
		require.NotContains(t, series, deploymentB, "the metrics of a deleted deployment must end")
	}
}

// outcomes returns the series that counts the calls of a deployment with an outcome.
func outcomes(deploymentID, outcome string) string {
	return `inference_calls_total{deployment_id="` + deploymentID + `",outcome="` + outcome + `"}`
}

// TestFlightsEnd ends a call in each way in which the proxy may leave it.
func TestFlightsEnd(t *testing.T) {
	t.Parallel()
	type flight struct {
		r    *harness
		w    *deploymentStates
		s    *wordStream
		resp reply
		in   *bufio.Reader
	}
	for name, c := range map[string]struct {
		end     func(f *flight)
		outcome string
	}{
		"response complete": {func(f *flight) { close(f.s.words) }, "ok"},
		"caller left":       {func(f *flight) { require.NoError(f.r.t, f.resp.Body.Close()) }, "client_closed"},
		"engine lost":       {func(f *flight) { f.w.e.stop() }, "upstream_truncated"},
		"token revoked": {func(f *flight) {
			f.r.registry.await(f.r.t, f.r.registry.push(served(deploymentA, nil, f.w.e)))
		}, "revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWordStream()
			f := &flight{r: open(t), w: newDeploymentStates(t, newEngine(t, s.play)), s: s}
			f.r.ready(f.w.deployments()...)
			f.resp, f.in = f.r.stream(f.w.good.text)
			s.words <- "a"
			require.Equal(t, "a", event(t, f.in))
			f.r.awaitFlights(deploymentA, 1)
			c.end(f)
			f.r.awaitFlights(deploymentA, 0)
			got := f.r.scrape()
			require.InDelta(t, 1, got[about(callDurations, deploymentA)], 0)
			require.InDelta(t, 1, got[outcomes(deploymentA, c.outcome)], 0, "%v", got)
		})
	}
}

func TestFlightOfTooLargeBodyEnds(t *testing.T) {
	t.Parallel()
	r := open(t)
	w := newDeploymentStates(t, newEngine(t, func(e *engine, _ net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); ok {
			_, _ = io.Copy(io.Discard, in)
		}
	}))
	r.ready(w.deployments()...)
	body, send := io.Pipe()
	req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "")
	req.Body = body
	response := make(chan reply, 1)
	go func() { response <- r.send(req) }()
	_, err := io.WriteString(send, "x")
	require.NoError(t, err)
	r.awaitFlights(deploymentA, 1)
	_, _ = io.Copy(send, io.LimitReader(zeros{}, r.cfg.MaxBodyMB<<20)) // fails if the response comes first
	refused(t, <-response, 413, "body_too_large")
	_ = send.Close()
	r.awaitFlights(deploymentA, 0)
	require.Zero(t, r.scrape()[about(callDurations, deploymentA)], "a refused call must not be measured")
}

// zeros reads as many zeros as are requested.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestWebSocketInFlightNotMeasured(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, echoServer(t, nil))
	r.ready(w.deployments()...)
	c, _, err := r.dial(w.good.text, "/v1/realtime")
	require.NoError(t, err)
	r.echoes(c, websocket.MessageText, "hi")
	r.awaitFlights(deploymentA, 1)
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
	r.awaitFlights(deploymentA, 0)
	got := r.scrape()
	require.Zero(t, got[about(callDurations, deploymentA)])
	require.Zero(t, got[about(firstTokens, deploymentA)])
	require.InDelta(t, 1, got[outcomes(deploymentA, "ok")], 0)
}

func TestPlaygroundMeasuredAsOne(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r := open(t)
	caller := r.openSession(newEngine(t, s.play), time.Hour)
	resp := r.callTarget(caller, http.MethodPost, "1/v1/chat/completions", `{"stream":true}`)
	s.words <- "a"
	require.Equal(t, "a", event(t, bufio.NewReader(resp.Body)))
	r.awaitFlights("playground", 1)
	close(s.words)
	_ = text(t, resp)
	r.awaitFlights("playground", 0)
	got := r.scrape()
	require.InDelta(t, 1, got[about(callDurations, "playground")], 0)
	for series := range got {
		require.NotContains(t, series, session)
	}
}
