package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// HeaderRank is the header that can carry the rank of the reporting process, as an alternative to the field rank.
const HeaderRank = "X-Service-Rank"

// rankSeparator separates the name of a writer from its rank in the name under which the writer is stored. No name of a
// writer contains it.
const rankSeparator = "\x1f"

// rankHeader returns the rank in the header of a request, or nil.
func rankHeader(h http.Header) (*int32, error) {
	values := h.Values(HeaderRank)
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // nil means that there is no such header
	}
	n, err := strconv.ParseInt(values[0], 10, 32)
	if len(values) > 1 || err != nil || n < 0 || n > decode.MaxRank || strconv.FormatInt(n, 10) != values[0] {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue,
			fmt.Sprintf("Value error, the rank must be one integer from 0 to %d", decode.MaxRank), "header", "x-service-rank"))
	}
	return new(int32(n)), nil
}

// identify sets the rank of a request, which its body and its header must state in the same way. The numbers of the
// requests of different ranks are independent, so the rank becomes part of the name of the writer.
func (r *request) identify(field *int32) error {
	switch {
	case field == nil:
	case r.rank == nil:
		r.rank = field
	case *field != *r.rank:
		return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, rank differs from the header "+HeaderRank, "body", "rank"))
	}
	if r.rank != nil && *r.rank > 0 && r.key.Seq > 0 {
		if field != nil { // no other request with this name has the same body
			r.earlier = r.key.Writer
		}
		r.key.Writer += rankSeparator + strconv.Itoa(int(*r.rank))
		r.former = "" // earlier versions stored no writer with its rank
	}
	return nil
}

// other returns the rank of a request if it is not 0.
func (r *request) other() (rank int32, ok bool) {
	if r.rank == nil || *r.rank == 0 {
		return 0, false
	}
	return *r.rank, true
}

// recordLifecycle stores the event of a process that is not the first one of its training. Only the events of rank 0
// change the state of a job. The event may come after that of rank 0 that has closed the run.
func (h *Handler) recordLifecycle(ctx context.Context, r *request, rank int32, event *report.Lifecycle) (any, error) {
	recorded := struct {
		Event   string    `json:"event"`
		At      time.Time `json:"ts"`
		Message string    `json:"message,omitempty"`
	}{event.Event, event.At, event.Message}
	if r.grant.Withhold != nil {
		recorded.Message = "" // it may contain records of the protected dataset
	}
	body, err := json.Marshal(recorded)
	if err != nil {
		return nil, fmt.Errorf("encode a lifecycle event: %w", err)
	}
	item := report.Item{Key: fmt.Sprintf("%08d/%s", rank, event.Event), Body: body, Attempt: r.grant.Attempt}
	kept := r.item("lifecycle", 1, report.WriteRaw("lifecycle", []report.Item{item}))
	kept.Unfenced, kept.Earlier = true, "" // an earlier version did not record the event
	kept.Over = groupcommit.All()          // as for rank 0, the event is never refused because of a limit
	return stored{true}, h.store(ctx, kept, 0)
}

// marksOf returns the marks of the writers of a rank, or of all ranks if rank is nil, under the names that the writers gave
// themselves. Of writers of several ranks with the same name it returns that of the lowest rank.
func marksOf(marks map[string]map[string]int64, rank *int32) map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for stream, writers := range marks {
		lowest := map[string]int{}
		for stored, seq := range writers {
			name, suffix, _ := strings.Cut(stored, rankSeparator)
			of, _ := strconv.Atoi(suffix) // the empty suffix is that of rank 0
			if rank != nil && int(*rank) != of {
				continue
			}
			if first, found := lowest[name]; found && first < of {
				continue
			}
			if lowest[name] = of; out[stream] == nil {
				out[stream] = map[string]int64{}
			}
			out[stream][name] = seq
		}
	}
	return out
}
