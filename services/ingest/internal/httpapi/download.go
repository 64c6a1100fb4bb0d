package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

const (
	// headerCaller contains the identity that auth signed for this request. The gateway sets it.
	headerCaller = "X-Service-Caller"
	// callerLife is the maximum time for which that identity is valid.
	callerLife = time.Minute
	// pageTime is how long a client may take to receive a page of the log.
	pageTime = 2 * time.Minute
	// The maximum numbers of concurrent downloads of logs and metrics: in total, and of one user.
	maxDownloads = 8
	maxOfUser    = 2
)

// LogDownload serves /api/runs/{id}/logs/download, and the same path of the run's job. All exported fields are required.
type LogDownload struct {
	// Readable returns the id of a run, given the id of the run or of its job. It returns an Absent fault if the caller,
	// whose token the context carries, may not read the run.
	Readable func(ctx context.Context, name string) (string, error)
	Progress func(ctx context.Context, runID string) (run.Progress, error)
	Logs     *logs.Store
	// Classify converts the error of a library to a fault of the matching kind.
	Classify func(error) error
	Clock    clock.Clock
	IDs      *id.Source
	Log      *slog.Logger

	mu   sync.Mutex
	open int
	of   map[string]int // open downloads by user
}

// Match returns the id in the path of a download, and false for any other path.
func (d *LogDownload) Match(path string) (name string, ok bool) { return match(path, "/logs/download") }

// match returns the id of the run or job in a path that ends with the suffix.
func match(path, suffix string) (name string, ok bool) {
	rest, ok := strings.CutSuffix(path, suffix)
	if !ok {
		return "", false
	}
	for _, prefix := range []string{"/api/runs/", "/api/jobs/"} {
		if name, ok := strings.CutPrefix(rest, prefix); ok && !strings.Contains(name, "/") {
			return name, true
		}
	}
	return "", false
}

// ServeHTTP implements http.Handler. If a download fails after its first bytes, the connection is aborted, so that the
// client does not take the part for the whole log.
func (d *LogDownload) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.respond(w, r, d.serve) }

// respond writes the file that serve writes, or its error.
func (d *LogDownload) respond(w http.ResponseWriter, r *http.Request, serve func(context.Context, *fileResponse, *http.Request) error) {
	requestID := r.Header.Get(fault.HeaderRequestID)
	if id.Check(id.Request, requestID) != nil {
		requestID = d.IDs.New(id.Request)
	}
	ctx := obs.WithRequestID(r.Context(), requestID)
	w.Header().Set(fault.HeaderRequestID, requestID)
	file := &fileResponse{ResponseWriter: w}
	err := serve(ctx, file, r)
	if err == nil {
		return
	}
	f := fault.From(d.Classify(err))
	if f.Kind == fault.Internal || f.Kind == fault.Dependency {
		d.Log.ErrorContext(ctx, "download failed", "path", r.URL.Path, "error", err)
	}
	if file.begun {
		panic(http.ErrAbortHandler)
	}
	fault.Write(w, f, requestID)
}

// callerOf returns the user of a request that may download.
func callerOf(w *fileResponse, r *http.Request) (*authn.Caller, error) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return nil, fault.New(fault.MethodNotAllowed, "", "Method Not Allowed")
	}
	caller, err := authn.UnverifiedCaller(r.Header.Get(headerCaller))
	if err != nil {
		return nil, fault.New(fault.Unauthenticated, "", "Not authenticated").Wrap(err)
	}
	if caller.PasswordDrawn {
		return nil, fault.New(fault.Forbidden, rpc.CodePasswordChange, "your password is temporary; change it first with POST /api/profile/password")
	}
	return caller, nil
}

func (d *LogDownload) serve(ctx context.Context, w *fileResponse, r *http.Request) error {
	caller, err := callerOf(w, r)
	if err != nil {
		return err
	}
	q, labeled, err := logQuery(r.URL)
	if err != nil {
		return err
	}
	name, _ := d.Match(r.URL.Path)
	runID, last, err := d.find(ctx, r, name)
	if err != nil {
		return err
	}
	leave, err := d.enter(caller.Subject)
	if err != nil {
		return err
	}
	defer leave()
	w.name, w.mediaType = runID+".log", "text/plain; charset=utf-8"
	if err := d.Logs.Download(ctx, w, runID, last, q, labeled, w.extend); err != nil {
		return err
	}
	w.begin()
	return nil
}

// extend gives the client pageTime for the next part. The deadline uses the real clock, because package net compares it
// with the real time.
func (w *fileResponse) extend() {
	_ = http.NewResponseController(w).SetWriteDeadline(clock.Real().Now().Add(pageTime))
}

// find returns the id of a run that the caller may read, and the number of its last line.
func (d *LogDownload) find(ctx context.Context, r *http.Request, name string) (runID string, last int64, err error) {
	ctx = authn.WithToken(ctx, r.Header.Get(headerCaller), d.Clock.Now().Add(callerLife))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if runID, err = d.Readable(ctx, name); err != nil {
		if fault.Is(err, fault.Invalid) {
			err = fault.From(err).Under("path")
		}
		return "", 0, err
	}
	p, err := d.Progress(ctx, runID)
	return runID, p.LineSeq, err
}

// enter counts a download of a user, or returns an error if too many are open.
func (d *LogDownload) enter(user string) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open >= maxDownloads || d.of[user] >= maxOfUser {
		return nil, fault.New(fault.Limited, "downloads", "too many downloads are running; repeat the request when one has ended")
	}
	if d.of == nil {
		d.of = map[string]int{}
	}
	d.open++
	d.of[user]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open--
		if d.of[user]--; d.of[user] == 0 {
			delete(d.of, user)
		}
	}, nil
}
