package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// maxWait is the longest time that one request may wait for a signal.
const maxWait = 60 * time.Second

const signals = "signals"

// Signals lets trainings wait for signals.
type Signals interface {
	Await(ctx context.Context, w run.ControlWaiter, wait time.Duration) (run.Signal, error)
}

// pending is a signal in a response: none, checkpoint, pause or stop.
type pending struct {
	Signal   string   `json:"signal"`
	ID       *string  `json:"id"`
	Deadline *instant `json:"deadline"`
}

func pendingOf(s run.Signal) pending {
	out := pending{Signal: s.Signal}
	if s.ID != "" {
		out.ID = &s.ID
	}
	if s.Deadline != nil {
		at := instant(*s.Deadline)
		out.Deadline = &at
	}
	return out
}

// acked is the response to an acknowledgement. It holds the next signal.
type acked struct {
	OK bool `json:"ok"`
	pending
}

// mayHear returns an error if the token belongs to another run, or if its attempt gets no signals any more. After the end
// of the run the attempt gets the signal to stop.
func (r *request) mayHear(runID string, rank *int32) error {
	if err := r.may(runID, rank); err != nil {
		return err
	}
	return r.grant.Replaced()
}

// signals responds with the current signal to the run's training. With the query parameter wait, it first waits for a
// signal that differs from the query parameter after.
func (h *Handler) signals(ctx context.Context, r *request) (any, error) {
	q, err := readQuery(r.http.URL, "run_id", "wait?", "after?")
	if err != nil {
		return nil, err
	}
	wait, err := waitOf(q)
	if err != nil {
		return nil, err
	}
	if err := r.mayHear(q["run_id"], nil); err != nil {
		return nil, err
	}
	s, err := h.Signals.Await(ctx, run.ControlWaiter{RunID: q["run_id"], Attempt: r.grant.Attempt, After: q["after"]}, wait)
	if err != nil {
		return nil, err
	}
	return pendingOf(s), nil
}

func waitOf(q map[string]string) (time.Duration, error) {
	text, given := q["wait"]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fault.InvalidFields(fault.At(fault.TypeIntParsing, "Input should be a whole number of seconds", "query", "wait"))
	}
	most := int64(maxWait / time.Second)
	switch {
	case n < 0:
		return 0, fault.InvalidFields(fault.At(fault.TypeGreaterThanEqual, "Input should be greater than or equal to 0", "query", "wait"))
	case n > most:
		return 0, fault.InvalidFields(fault.At(fault.TypeLessThanEqual, "Input should be less than or equal to "+strconv.FormatInt(most, 10), "query", "wait"))
	}
	return time.Duration(n) * time.Second, nil
}

// ack acknowledges a signal: the training reports that it has done what the signal requires.
func (h *Handler) ack(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadAck(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.mayHear(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	next, err := h.Ack(ctx, r.grant, p.ID)
	if err != nil {
		return nil, err
	}
	return acked{OK: true, pending: pendingOf(next)}, nil
}
