package traffic

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// playground is the deployment id in the metrics of playground sessions, whose calls belong to no deployment.
const playground = "playground"

// Flight is a call from its begin to its end. It must be ended once.
type Flight struct{ of *measured }

// Done counts the call by its outcome and measures its duration and the time to its first byte. It is called once, with
// the complete record, and not for a call that is refused after Begin. A WebSocket is counted only: it lasts as long as
// its caller wants. The first byte of an error is not measured, nor that of another method than POST, which generates
// nothing: both are much faster than an engine that generates.
func (f Flight) Done(c *Call) {
	if counter := f.of.calls[c.Outcome]; counter != nil {
		counter.Inc()
	}
	addTokens(f.of.prompt, c.PromptTokens)
	addTokens(f.of.completion, c.CompletionTokens)
	if c.RequestFrames != nil {
		return
	}
	const second = float64(time.Second / time.Millisecond)
	f.of.duration.Observe(c.Duration / second)
	if c.TTFT != nil && c.Method == http.MethodPost && c.Status < http.StatusBadRequest {
		f.of.first.Observe(*c.TTFT / second)
	}
}

// addTokens adds the number of tokens, which the engine states, unless it is not known. The engine could send any number,
// and a counter must not get less.
func addTokens(to prometheus.Counter, n *int32) {
	if n != nil && *n > 0 {
		to.Add(float64(*n))
	}
}

// End ends the call, which is not in flight any more. Defer it, so that it also runs if the call panics.
func (f Flight) End() { f.of.open.Dec() }

// measured holds the metrics of one deployment, so that a call needs no labels.
type measured struct {
	calls           map[string]prometheus.Counter // by outcome
	duration, first prometheus.Observer
	open            prometheus.Gauge
	// prompt and completion count the tokens of requests and responses.
	prompt, completion prometheus.Counter
}

// leastKnown is the least number of deployments at which those that do not exist any more are looked for.
const leastKnown = 64

// deployments measures the calls of each deployment that has been called. It implements prometheus.Collector. Its
// metrics are not OpenTelemetry's: the SDK exports what it has measured until the process ends, and measures all
// deployments after the first 2,000 as one. These metrics end with the deployment.
type deployments struct {
	exists          func(id string) bool
	calls           *prometheus.CounterVec
	duration, first *prometheus.HistogramVec
	open            *prometheus.GaugeVec
	tokens          *prometheus.CounterVec

	known sync.Map // the *measured of each deployment id

	mu    sync.Mutex // held while known changes
	size  int        // of known
	limit int        // the size at which known is searched for deployments that do not exist any more
}

func newDeployments(exists func(id string) bool) *deployments {
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"deployment_id"})
	}
	return &deployments{
		exists: exists, limit: leastKnown,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_calls_total", Help: "calls that reached an engine or tried to reach one, by deployment and outcome",
		}, []string{"deployment_id", "outcome"}),
		duration: histogram("inference_call_duration_seconds", "duration of calls of any outcome, without WebSockets, by deployment"),
		first:    histogram("inference_time_to_first_token_seconds", "time from the request to the first byte of the response's body, of POST calls without an error, by deployment"),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "inference_calls_in_flight", Help: "calls and WebSockets that have passed the checks and have not ended, by deployment",
		}, []string{"deployment_id"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_tokens_total", Help: "tokens that engines have stated for calls, by deployment and kind: prompt or completion",
		}, []string{"deployment_id", "kind"}),
	}
}

// of returns the metrics of a deployment.
func (d *deployments) of(id string) *measured {
	found, _ := d.known.Load(id)
	if m, ok := found.(*measured); ok {
		return m
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, _ = d.known.Load(id)
	if m, ok := found.(*measured); ok {
		return m
	}
	if d.size >= d.limit {
		d.forget()
		d.limit = max(leastKnown, 2*d.size)
	}
	m := &measured{
		calls:    map[string]prometheus.Counter{},
		duration: d.duration.WithLabelValues(id), first: d.first.WithLabelValues(id), open: d.open.WithLabelValues(id),
		prompt: d.tokens.WithLabelValues(id, "prompt"), completion: d.tokens.WithLabelValues(id, "completion"),
	}
	for _, outcome := range outcomes() {
		m.calls[outcome] = d.calls.WithLabelValues(id, outcome)
	}
	d.known.Store(id, m)
	d.size++
	return m
}

// forget removes the deployments that do not exist any more. Calls of them that are still in flight, which are being
// cut, are not measured. The caller must hold d.mu.
func (d *deployments) forget() {
	d.known.Range(func(key, _ any) bool {
		if id, _ := key.(string); id != playground && !d.exists(id) {
			d.known.Delete(id)
			d.size--
			d.calls.DeletePartialMatch(prometheus.Labels{"deployment_id": id})
			d.duration.DeleteLabelValues(id)
			d.first.DeleteLabelValues(id)
			d.open.DeleteLabelValues(id)
			d.tokens.DeletePartialMatch(prometheus.Labels{"deployment_id": id})
		}
		return true
	})
}

// Describe implements prometheus.Collector.
func (d *deployments) Describe(ch chan<- *prometheus.Desc) {
	d.calls.Describe(ch)
	d.duration.Describe(ch)
	d.first.Describe(ch)
	d.open.Describe(ch)
	d.tokens.Describe(ch)
}

// Collect implements prometheus.Collector.
func (d *deployments) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	d.forget()
	d.mu.Unlock()
	d.calls.Collect(ch)
	d.duration.Collect(ch)
	d.first.Collect(ch)
	d.open.Collect(ch)
	d.tokens.Collect(ch)
}
