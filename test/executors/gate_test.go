package executors

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// gate is a server at which trainings report what they do, and wait. It knows how often a training was started even if the
// control plane does not.
type gate struct {
	address string

	mu      sync.Mutex
	reports map[string][]report // by run
	open    map[string]bool     // by run
}

// report is a report of one attempt.
type report struct {
	attempt       int
	event, detail string
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{reports: map[string][]report{}, open: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{run}/{attempt}/{event}", g.receive)
	mux.HandleFunc("GET /{run}", g.pass)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	g.address = strings.TrimPrefix(server.URL, "http://")
	return g
}

func (g *gate) receive(w http.ResponseWriter, r *http.Request) {
	attempt, err := strconv.Atoi(r.PathValue("attempt"))
	detail, readErr := io.ReadAll(r.Body)
	if err != nil || readErr != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	run := r.PathValue("run")
	g.reports[run] = append(g.reports[run], report{attempt: attempt, event: r.PathValue("event"), detail: string(detail)})
}

// pass responds with `open` once the training may continue.
func (g *gate) pass(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[r.PathValue("run")] {
		_, _ = io.WriteString(w, "open")
	}
}

// release lets all attempts of a run continue.
func (g *gate) release(run string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[run] = true
}

// received returns the details of a run's events of one kind, each as `ATTEMPT DETAIL`, in the order of their arrival.
func (g *gate) received(run, event string) (found []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.reports[run] {
		if r.event == event {
			found = append(found, strconv.Itoa(r.attempt)+" "+r.detail)
		}
	}
	return found
}
