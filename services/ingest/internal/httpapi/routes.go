package httpapi

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// stored is the response of most routes.
type stored struct {
	OK bool `json:"ok"`
}

type inserted struct {
	OK       bool `json:"ok"`
	Inserted int  `json:"inserted"`
}

// may returns an error if the token belongs to another run, or if the body and the header of the request state different
// ranks.
func (r *request) may(runID string, rank *int32) error {
	if err := r.grant.Run(runID); err != nil {
		return err
	}
	return r.identify(rank)
}

// lifecycle sends the event to the jobs service, which decides whether the event is valid. The request is marked as
// stored only after the jobs service has accepted the event.
func (h *Handler) lifecycle(ctx context.Context, r *request) (any, error) {
	event, err := report.ReadLifecycle(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.grant.Run(event.RunID); err != nil {
		return nil, err
	}
	if err := r.identify(event.Rank); err != nil {
		return nil, err
	}
	if rank, ok := r.other(); ok {
		return h.recordLifecycle(ctx, r, rank, event)
	}
	item := r.item("lifecycle", 0, nil)
	if r.key.Seq > 0 {
		known, err := h.Marks.Claim(ctx, &item)
		if known || err != nil {
			return stored{true}, err
		}
	}
	if err := h.Lifecycle(ctx, r.grant, event); err != nil {
		return nil, err
	}
	// The item stores the attempt in the run's row. From then on, reports of older attempts are rejected, even if the
	// grants of their tokens are still cached.
	item.Unfenced = true
	// An event takes effect even if the run has reached its limit.
	item.Over = groupcommit.All()
	if _, err := h.Store.Store(ctx, item); err != nil {
		return nil, err
	}
	return stored{true}, nil
}

// repeatable returns the error of a report, or nil if the report was refused only because its attempt was replaced or the
// run is closed, and everything that it contains is stored: a client that has lost the response repeats the report.
func (*Handler) repeatable(err error, has func() (bool, error)) error {
	if !fault.HasCode(err, groupcommit.CodeReplaced) && !fault.HasCode(err, groupcommit.CodeClosed) {
		return err
	}
	if known, failed := has(); known || failed != nil {
		return failed
	}
	return err
}

// store stores a report. The parameter withheld is the number of its parts that were withheld; a repeated report does
// not count them again.
func (h *Handler) store(ctx context.Context, item groupcommit.Item, withheld int) error {
	repeated, err := h.Store.Store(ctx, item)
	if err == nil && !repeated && withheld > 0 {
		h.Withheld(ctx, item.Stream, withheld)
	}
	return err
}

// metrics stores the points of a request and responds with their number. A repeated request gets the same response.
func (h *Handler) metrics(ctx context.Context, r *request) (any, error) {
	c, _ := h.columns.Get().(*decode.Columns)
	if c == nil {
		c = &decode.Columns{}
	}
	if err := decode.Metrics(r.body, c); err != nil {
		h.columns.Put(c)
		return nil, err
	}
	if err := r.may(c.RunID, c.Rank); err != nil {
		h.columns.Put(c)
		return nil, err
	}
	withheld := c.Len()
	if d := r.grant.Withhold; d != nil {
		c.Keep(d.Declares)
	}
	withheld -= c.Len()
	c.Rank = r.rank
	item := r.sized("metrics", groupcommit.Points, c.Len()*metric.PointSize, metric.Write(h.Keys, c))
	item.Newest = c.Newest()
	err := h.repeatable(h.store(ctx, item, withheld), func() (bool, error) { return h.Points.Has(ctx, c.RunID, r.grant.Attempt, c) })
	if err != nil {
		return nil, err // c must not be reused, because the committer may still read it
	}
	n := c.Len()
	h.columns.Put(c)
	return inserted{true, n}, nil
}

func (h *Handler) hparams(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadHparams(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	withheld := 0
	if d := r.grant.Withhold; d != nil {
		withheld = p.Withhold(d)
	}
	rank, _ := r.other()
	err = h.repeatable(h.store(ctx, r.item("hparams", len(p.Params), run.WriteHParams(p.Params, rank)), withheld),
		func() (bool, error) { return h.HParams.Has(ctx, p.RunID, rank, p.Params) })
	return stored{true}, err
}

func (h *Handler) validation(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadValidation(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	withheld := 0
	if r.grant.Withhold != nil {
		withheld = p.Withhold()
	}
	p.Rank = r.rank
	err = h.store(ctx, r.item("validation", len(p.Samples), evaluation.WriteValidation(p)), withheld)
	return stored{true}, err
}

func (h *Handler) logs(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadLogs(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	from := logs.Origin{Rank: r.rank}
	if from.Node, err = nodeHeader(r.http.Header); err != nil {
		return nil, err
	}
	withheld := 0
	if r.grant.Withhold != nil {
		withheld = p.Withhold()
		from.Node = nil // the run can state any text
	}
	size := 0
	for _, chunk := range p.Chunks {
		size += len(chunk)
	}
	item := r.sized("logs", groupcommit.Log, size, logs.Write(r.key, from, p.Chunks))
	item.Over = logs.Cut(h.Note)
	err = h.store(ctx, item, withheld)
	return stored{true}, err
}

// record returns the route of a report whose JSON is stored unchanged.
func (h *Handler) record(stream string, read func([]byte) (*report.Records, error)) route {
	return func(ctx context.Context, r *request) (any, error) {
		p, err := read(r.body)
		if err != nil {
			return nil, err
		}
		if err := r.may(p.RunID, p.Rank); err != nil {
			return nil, err
		}
		withheld := 0
		if r.grant.Withhold != nil {
			withheld = p.Withhold()
		}
		if rank, ok := r.other(); ok && stream == report.Environment {
			p.Items[0].Key += fmt.Sprintf("/%08d", rank) // nodes have their own ranks
		}
		err = h.store(ctx, r.item(stream, len(p.Items), report.WriteRaw(stream, p.Items)), withheld)
		return stored{true}, err
	}
}

func (h *Handler) hardware(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadHardware(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	withheld := 0
	if r.grant.Withhold != nil {
		withheld = p.Withhold()
	}
	item := r.sized("hardware", groupcommit.Points, len(p.Points)*metric.PointSize, metric.WriteHardware(p.Points))
	err = h.store(ctx, item, withheld)
	return stored{true}, err
}

// benchmark stores the score, the evaluation and the rollouts of a report in one transaction.
func (h *Handler) benchmark(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadBenchmark(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	withheld := 0
	if d := r.grant.Withhold; d != nil {
		withheld = p.Withhold(d)
	}
	p.Rank = r.rank
	err = h.store(ctx, r.item("benchmark", len(p.Rollouts), groupcommit.All(evaluation.WriteScore(p, h.IDs.New(id.Score)), evaluation.Write(p))), withheld)
	return stored{true}, err
}
