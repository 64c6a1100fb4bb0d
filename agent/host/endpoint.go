package host

import (
	"context"
	"errors"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// endpointOf returns the ingest endpoint of a desired work. Earlier versions of the control plane send it in the spec.
func endpointOf(d executor.Work) string {
	if d.IngestEndpoint == "" && d.Attempt != nil {
		return d.Attempt.IngestEndpoint
	}
	return d.IngestEndpoint
}

// reportTo stores a new ingest endpoint. From then on, the agent sends its reports to the new address of the control
// plane, and the shims renew their leases there. A running attempt learns the address later, see followEndpoint.
func (w *work) reportTo(ctx context.Context, endpoint string) {
	var err error
	switch {
	case endpoint == "":
		return
	case w.assignment.Work.Attempt == nil:
		err = w.renewAt(leaseURL(endpoint))
	default:
		err = w.saveNewEndpoint(endpoint)
	}
	if err != nil {
		// The next list contains the address again, so the change is then tried again.
		w.host.deps.Log.WarnContext(ctx, "cannot change to the new ingest endpoint", "work", w.key.String(), "error", err.Error())
	}
}

func (w *work) saveNewEndpoint(endpoint string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if endpoint == w.ingest() {
		return nil
	}
	before := w.assignment.Ingest
	w.assignment.Ingest = endpoint
	if err := errors.Join(w.saveLeases(), w.saveAssignment()); err != nil {
		w.assignment.Ingest = before
		return err
	}
	select {
	case w.rerouted <- struct{}{}:
	default:
	}
	return nil
}

// endpoint returns the current URL of the ingest routes.
func (w *work) endpoint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ingest()
}

// ingest is like endpoint, for callers that hold w.mu.
func (w *work) ingest() string {
	if w.assignment.Ingest != "" {
		return w.assignment.Ingest
	}
	if w.assignment.Work.Attempt == nil {
		return ""
	}
	return w.assignment.Work.Attempt.IngestEndpoint
}

// live is the name of the folder with files that the agent replaces while the work runs. The work sees the whole
// folder, because a bind of a single file would keep showing the replaced file.
const live = "live"

// endpointFile returns the path of the file that contains the current URL of the ingest routes. A running training
// reads this file, because its environment variable keeps the URL from the start of the training.
func (w *work) endpointFile() string {
	// A training that an earlier version of the agent has started reads this file.
	if before := w.path("endpoint"); exists(before) {
		return before
	}
	return w.path(live, "endpoint")
}

func (w *work) saveEndpoint() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeEndpoint(w.endpointFile(), w.ingest())
}

func writeEndpoint(path, endpoint string) error {
	const readable = 0o644 // by the work's user; no other user can enter the work's folder
	return localfile.Write(path, []byte(endpointText(endpoint)), readable)
}

// endpointText returns the content of the endpoint file.
func endpointText(endpoint string) string { return endpoint + "\n" }
