// Package httpapi serves every route under /api/ingest, from the check of the token to the response. It promises that
// an invalid body is never an internal error: the response lists the faults with their paths. Data is stored only for
// the run of the token, and status 200 means that the data is committed. Within a run and a route, an Idempotency-Key
// belongs to one body: the same bytes get the same response again, and other bytes get 409.
package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Prefix is the path under which Handler is mounted.
const Prefix = "/api/ingest/"

// timeout limits the check of the token, and the handling of a request after its body has arrived. A request that waits
// for a signal may take maxWait longer.
const timeout = 20 * time.Second

// Storer stores items durably.
type Storer interface {
	Store(ctx context.Context, item groupcommit.Item) (repeated bool, err error)
}

// Marks knows which numbered requests are stored.
type Marks interface {
	// Claim records the digest of the body of a request. It reports whether that request is already
	// stored.
	Claim(ctx context.Context, item *groupcommit.Item) (stored bool, err error)
	Watermark(ctx context.Context, runID string) (map[string]map[string]int64, error)
}

// Registered finds registered artifacts.
type Registered interface {
	Find(ctx context.Context, a *artifact.Artifact) (*artifact.Artifact, error)
}

// Points knows the stored points.
type Points interface {
	// Has reports whether an attempt has reported all of the given points.
	Has(ctx context.Context, runID string, attempt int32, c *decode.Columns) (bool, error)
}

// HParams knows the stored hyperparameters.
type HParams interface {
	// Has reports whether the run has all of the given hyperparameters.
	Has(ctx context.Context, runID string, rank int32, params []report.Param) (bool, error)
}

// Handler serves /api/ingest. All fields are required.
type Handler struct {
	Grants *ingesttoken.Checker
	Store  Storer
	// Note is the last line of a log that has reached its maximum.
	Note      []byte
	Marks     Marks
	Keys      *metric.Keys
	Points    Points
	HParams   HParams
	Registrar *artifact.Registrar
	Artifacts Registered
	// Lifecycle sends a reported event to the jobs service.
	Lifecycle func(ctx context.Context, g *ingesttoken.Grant, event *report.Lifecycle) error
	// Checkpoint reports a registered checkpoint to the jobs service, so that the next attempt can resume from it.
	Checkpoint func(ctx context.Context, g *ingesttoken.Grant, a *artifact.Artifact) error
	// Keep removes the checkpoints of the run that it does not keep any more. It logs its errors, because the next checkpoint
	// repeats it.
	Keep    func(ctx context.Context, g *ingesttoken.Grant)
	Signals Signals
	// Ack sends the acknowledgement of a signal to the jobs service and returns the next signal.
	Ack func(ctx context.Context, g *ingesttoken.Grant, signalID string) (run.Signal, error)
	// Withheld counts what was removed from the reports of protected runs, by the kind of the report.
	Withheld func(ctx context.Context, kind string, parts int)
	// Classify converts the error of a library to a fault of the matching kind.
	Classify func(error) error
	IDs      *id.Source
	Log      *slog.Logger

	buffers sync.Pool
	columns sync.Pool
	bodies  budget
}

type route func(ctx context.Context, r *request) (any, error)

// route returns the route for a path and a method.
func (h *Handler) route(path, method string) (route, error) {
	posts := map[string]route{
		"lifecycle": h.lifecycle, "metrics": h.metrics, "hparams": h.hparams, "validation": h.validation, "logs": h.logs,
		"artifact":          h.artifact,
		"hardware":          h.hardware,
		"environment":       h.record(report.Environment, report.ReadEnvironment),
		"environment/nodes": h.record(report.Nodes, report.ReadNodes),
		"benchmark":         h.benchmark,
		"signals/ack":       h.ack,
	}
	gets := map[string]route{"artifact/upload-url": h.uploadURL, "watermark": h.watermark, signals: h.signals}
	post, get := posts[path], gets[path]
	switch {
	case post != nil && method == http.MethodPost:
		return post, nil
	case get != nil && method == http.MethodGet:
		return get, nil
	case post != nil || get != nil:
		return nil, fault.New(fault.MethodNotAllowed, "", "Method Not Allowed")
	}
	return nil, fault.New(fault.Absent, "", "Not Found")
}

// allowed returns the method of a path. Each path has only one method.
func (h *Handler) allowed(path string) string {
	if serve, _ := h.route(path, http.MethodGet); serve != nil {
		return http.MethodGet
	}
	return http.MethodPost
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := h.requestID(r)
	ctx := obs.WithRequestID(r.Context(), requestID)
	defer func() {
		if p := recover(); p != nil {
			h.Log.ErrorContext(ctx, "ingest request panicked", "panic", p, "stack", string(debug.Stack()))
			fault.Write(w, fault.New(fault.Internal, "", "panic"), requestID)
		}
	}()
	response, err := h.dispatch(ctx, w, r)
	if err != nil {
		h.fail(ctx, w, r, err, requestID)
		return
	}
	body, err := json.Marshal(response)
	if err != nil {
		h.fail(ctx, w, r, err, requestID)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set(fault.HeaderRequestID, requestID)
	_, _ = w.Write(append(body, '\n')) // ignore errors: a client that has disconnected sends the request again
}

func (h *Handler) fail(ctx context.Context, w http.ResponseWriter, r *http.Request, err error, requestID string) {
	f := fault.From(h.Classify(err))
	if f.Kind == fault.Internal || f.Kind == fault.Dependency {
		h.Log.ErrorContext(ctx, "ingest request failed", "path", r.URL.Path, "error", err)
	}
	fault.Write(w, f, requestID)
}

// dispatch finds the route and checks the token before it reads the body. Then it calls the route.
func (h *Handler) dispatch(ctx context.Context, w http.ResponseWriter, r *http.Request) (any, error) {
	path, ok := cutPrefix(r.URL.Path)
	if !ok {
		return nil, fault.New(fault.Absent, "", "Not Found")
	}
	serve, err := h.route(path, r.Method)
	if fault.Is(err, fault.MethodNotAllowed) {
		w.Header().Set("Allow", h.allowed(path))
	}
	if err != nil {
		return nil, err
	}
	req := &request{http: r}
	if req.grant, err = h.check(ctx, r); err != nil {
		return nil, err
	}
	if req.key, err = idempotencyKey(r.Header); err != nil {
		return nil, err
	}
	if req.rank, err = rankHeader(r.Header); err != nil {
		return nil, err
	}
	if req.grant.Withhold != nil && req.key.Seq > 0 {
		req.former = req.key.Writer
		req.key.Writer = report.WithheldWriter(req.grant.Owner.RunID, req.former)
	}
	if r.Method == http.MethodPost {
		release, err := h.read(w, r, req, maxBody(path))
		if err != nil {
			return nil, err
		}
		defer release()
	}
	limit := timeout
	if path == signals {
		limit += maxWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return serve(ctx, req)
}

// check returns the grant of a request's token.
func (h *Handler) check(ctx context.Context, r *http.Request) (*ingesttoken.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return h.Grants.Check(ctx, r.Header)
}

func (h *Handler) requestID(r *http.Request) string {
	given := r.Header.Get(fault.HeaderRequestID)
	if id.Check(id.Request, given) == nil {
		return given
	}
	return h.IDs.New(id.Request)
}
