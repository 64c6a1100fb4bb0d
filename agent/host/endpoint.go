package host

import (
	"context"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/files"
)

// endpoint is where the ingest routes are now.
func (w *work) endpoint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ingest()
}

// ingest is endpoint for who holds the lock.
func (w *work) ingest() string {
	if w.assignment.Ingest != "" {
		return w.assignment.Ingest
	}
	if w.assignment.Work.Attempt == nil {
		return ""
	}
	return w.assignment.Work.Attempt.IngestEndpoint
}

// reportTo takes the address that the control plane has now: one that came back elsewhere is
// reported to there, by the agent and by what runs.
func (w *work) reportTo(ctx context.Context, told *executor.AttemptSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told == nil || told.IngestEndpoint == "" || told.IngestEndpoint == w.ingest() {
		return
	}
	// The file first: who is cut off behind it is told again, and writes it again.
	err := writeEndpoint(w.endpointFile(), told.IngestEndpoint)
	if err == nil {
		w.assignment.Ingest = told.IngestEndpoint
		err = w.saveAssignment()
	}
	if err != nil {
		// It is told again with the next list, or to the next agent.
		w.host.deps.Log.WarnContext(ctx, "ingest address not saved", "work", w.key.String(), "error", err.Error())
	}
}

// endpointFile tells the running training where the ingest routes are now. Its environment, which
// cannot be changed any more, says where they were when it began.
func (w *work) endpointFile() string { return w.path("endpoint") }

func (w *work) tellEndpoint() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeEndpoint(w.endpointFile(), w.ingest())
}

func writeEndpoint(path, endpoint string) error {
	return files.Write(path, []byte(endpoint+"\n"), files.Private)
}
