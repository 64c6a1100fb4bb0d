package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeServer is an HTTP server with the routes of an installation, and a model that responds as the test sets it.
// Package test/e2e covers real training and serving.
type fakeServer struct {
	*httptest.Server

	mux *http.ServeMux

	// job is the state in which the job ends; rounds and samples are what the run reported.
	job     string
	rounds  string
	samples []map[string]any
	// trained, untrained and streamed return the model's response to a question.
	trained, untrained, streamed func(question string) string
	// logs and metrics are the job's streams. If held is set, they send nothing and stay open.
	logs, metrics string
	held          bool
	// without is the ID of an artifact that the run did not register. denied makes every login fail.
	without string
	denied  bool
	// early is the response status if a revision is promoted before it is ready.
	early int

	mu       sync.Mutex
	password string
	answers  int // number of chat responses; the traffic record has a row for each
	revision int // number of the last revision
	looked   int // number of reads of the last revision
	promoted int
	history  []int // all values of promoted
	stopped  []int
	dataset  []byte
}

const (
	someLogs    = "id: 1\ndata: {\"seq\":1,\"text\":\"hello\"}\n\nid: 1\nevent: eof\ndata: {}\n\n"
	someMetrics = `id: 1
data: {"points":[{"key":"train/loss","step":1,"value":2.5}]}

id: 2
data: {"points":[{"key":"val/exact_match","step":900,"value":0.97}]}

id: 2
event: eof
data: {}

`
)

const artifacts = `[{"id":"art_0","kind":"checkpoint","format":"gguf","step":0},{"id":"art_1","kind":"merged_model","format":"gguf","step":900},
	{"id":"art_2","kind":"hf_export","format":"safetensors","step":900}]`

// correctSum returns the correct sum for a question.
func correctSum(question string) string {
	var x, y int
	_, _ = fmt.Sscanf(question, "%d+%d?", &x, &y)
	return fmt.Sprint(x + y)
}

func wrongSum(string) string { return "0" }

// sample returns one held-out pair with the model's response in the last round.
func sample(question, answer string) map[string]any {
	reward := 0
	if answer == correctSum(question) {
		reward = 1
	}
	return map[string]any{"user": question, "assistant": answer, "env": map[string]any{"expected": correctSum(question)}, "reward": reward}
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	w := &fakeServer{
		mux: http.NewServeMux(), job: `"state":"succeeded"`, early: http.StatusConflict, trained: correctSum, untrained: wrongSum, streamed: correctSum,
		logs: someLogs, metrics: someMetrics,
		rounds:  `[{"step":0,"avg_reward":0.01,"samples":3,"complete":true},{"step":900,"avg_reward":0.97,"samples":3,"complete":true}]`,
		samples: []map[string]any{sample("27+46?", "73"), sample("11+12?", "99"), sample("50+07?", "57")},
	}
	w.edge()
	w.run()
	w.models()
	w.deployments()
	w.Server = httptest.NewServer(w.mux)
	t.Cleanup(w.Close)
	return w
}

// respond adds a route with a fixed response.
func (w *fakeServer) respond(route, body string) {
	w.mux.HandleFunc(route, func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, body) })
}

func (w *fakeServer) edge() {
	w.mux.HandleFunc("POST /api/auth/login", func(out http.ResponseWriter, r *http.Request) {
		var in struct{ Username, Password string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.mu.Lock()
		w.password = in.Password
		w.mu.Unlock()
		if in.Username != "admin" || w.denied {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(out, `{"token":"access","user":{"username":"admin","role":"admin"}}`)
	})
	w.respond("GET /api/datasets", `[]`)
	w.mux.HandleFunc("POST /api/datasets", func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(out, `{"id":"dst_1"}`)
	})
	w.mux.HandleFunc("POST /api/datasets/dst_1/versions", func(out http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(out, `{"uploads":[{"url":"http://%s/put","method":"PUT","headers":{}}]}`, r.Host)
	})
	w.mux.HandleFunc("PUT /put", func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dataset, _ = io.ReadAll(r.Body)
	})
	w.respond("POST /api/datasets/dst_1/versions/v1/commit", `{"state":"ready","ref":"ds/default/walk@v1"}`)
}

func (w *fakeServer) run() {
	w.respond("GET /api/recipes/demo/chat-tiny", `{"version":"1"}`)
	w.respond("GET /api/recipes/demo/chat-tiny/versions/1/lock", `{"digest":"x"}`)
	w.respond("POST /api/jobs", `{"id":"job_1","run_id":"run_1","state":"queued"}`)
	w.mux.HandleFunc("GET /api/jobs/job_1", func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "{"+w.job+"}") })
	w.mux.HandleFunc("GET /api/jobs/job_1/logs/stream", func(out http.ResponseWriter, r *http.Request) { w.stream(out, r, w.logs) })
	w.mux.HandleFunc("GET /api/jobs/job_1/metrics/stream", func(out http.ResponseWriter, r *http.Request) { w.stream(out, r, w.metrics) })
	w.mux.HandleFunc("GET /api/runs/run_1/validations", func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, w.rounds) })
	w.mux.HandleFunc("GET /api/runs/run_1/samples", func(out http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(out).Encode(w.samples) })
	w.mux.HandleFunc("GET /api/runs/run_1/artifacts", func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, strings.ReplaceAll(artifacts, `"`+cmp.Or(w.without, "none")+`","kind":"`, `"gone","kind":"no `))
	})
}

func (w *fakeServer) stream(out http.ResponseWriter, r *http.Request, events string) {
	out.WriteHeader(http.StatusOK)
	if w.held {
		_ = http.NewResponseController(out).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(out, events)
}

func (w *fakeServer) models() {
	w.respond("GET /api/models", `[]`)
	w.respond("POST /api/models", `{"id":"mdl_1"}`)
	w.mux.HandleFunc("POST /api/models/mdl_1/versions", func(out http.ResponseWriter, r *http.Request) {
		var in struct {
			Source struct {
				ArtifactID string `json:"artifact_id"`
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		// The trained weights are version 1 and the untrained ones version 2, in whatever order they are registered.
		version := map[string]int{"art_1": 1, "art_0": 2}[in.Source.ArtifactID]
		_, _ = fmt.Fprintf(out, `{"model_id":"mdl_1","version":%d,"status":"ready","digest":"sha256:%064d"}`, version, version)
	})
}

func (w *fakeServer) deployments() {
	w.respond("POST /api/model-deployments", `{"id":"dep_1"}`)
	w.mux.HandleFunc("POST /api/model-deployments/dep_1/revisions", func(out http.ResponseWriter, r *http.Request) {
		var in struct{ Source struct{ Version int } }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.revision, w.looked = in.Source.Version, 0
		_, _ = fmt.Fprintf(out, `{"number":%d,"state":"pending","ready":false,"reason":null}`, w.revision)
	})
	w.mux.HandleFunc("GET /api/model-deployments/dep_1/revisions/{n}", func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.looked++
		_, _ = fmt.Fprintf(out, `{"number":%s,"state":"ready","ready":%t,"reason":null}`, r.PathValue("n"), w.looked > 1)
	})
	w.mux.HandleFunc("POST /api/model-deployments/dep_1/revisions/{n}/promote", func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.looked < 2 {
			out.WriteHeader(w.early)
			return
		}
		_, _ = fmt.Sscan(r.PathValue("n"), &w.promoted)
		w.history = append(w.history, w.promoted)
		_, _ = fmt.Fprintf(out, `{"id":"dep_1","promoted_revision":%d}`, w.promoted)
	})
	w.mux.HandleFunc("POST /api/model-deployments/dep_1/revisions/{n}/stop", func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		var n int
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		w.stopped = append(w.stopped, n)
	})
	w.respond("POST /api/model-deployments/dep_1/tokens", `{"id":"tok_1","token":"dtk_demo"}`)
	w.mux.HandleFunc("POST /inference/dep_1/v1/chat/completions", w.chat)
	w.mux.HandleFunc("GET /api/model-deployments/dep_1/traffic", func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		row := `{"status":200,"token_name":"demo","revision_number":1}`
		_, _ = io.WriteString(out, "["+strings.TrimSuffix(strings.Repeat(row+",", w.answers), ",")+"]")
	})
}

func (w *fakeServer) chat(out http.ResponseWriter, r *http.Request) {
	var in struct {
		Stream      bool
		Temperature float64
		Messages    []struct{ Content string }
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if r.Header.Get("Authorization") != "Bearer dtk_demo" || in.Temperature != 0 {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.mu.Lock()
	w.answers++
	promoted := w.promoted
	w.mu.Unlock()
	question := in.Messages[0].Content
	switch {
	case in.Stream:
		for _, c := range w.streamed(question) {
			_, _ = fmt.Fprintf(out, "data: {\"choices\":[{\"delta\":{\"content\":\"%c\"}}]}\n\n", c)
		}
		_, _ = io.WriteString(out, "data: [DONE]\n\n")
	case promoted == 1:
		_, _ = fmt.Fprintf(out, `{"choices":[{"message":{"content":%q}}]}`, w.trained(question))
	default:
		_, _ = fmt.Fprintf(out, `{"choices":[{"message":{"content":%q}}]}`, w.untrained(question))
	}
}
