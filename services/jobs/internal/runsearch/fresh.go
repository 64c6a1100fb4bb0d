package runsearch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// maxRefreshed is the number of runs whose metrics are refreshed together.
const maxRefreshed = 500

// Refresh copies what the running runs have reported since the last copy of their metrics. Ingest returns only the new points
// of the runs that have any, so that a pass over many runs takes few calls and statements, and nothing is written for the
// other runs. A run whose new points may replace earlier ones is copied as a whole, but rests afterwards for rest times as long
// as that took. Only one replica may call Refresh at a time; the copies themselves are guarded in SQL.
func (c *Copier) Refresh(ctx context.Context) error {
	began := c.Clock.Now()
	for id, until := range c.resting {
		if !began.Before(until) {
			delete(c.resting, id)
		}
	}
	var failed error // of runs that were copied as a whole, which does not stop the others
	for after := ""; ; {
		known, now, err := c.Store.running(ctx, c.Pool, after)
		if err != nil || len(known) == 0 {
			return errors.Join(failed, err)
		}
		until, whole, err := c.refresh(ctx, known, now)
		if fault.Is(err, fault.Unconfigured) {
			return failed // an earlier version of ingest; RunOnce copies the metrics
		}
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, c.copyAll(ctx, whole))
		switch {
		case until != "":
			after = until
		case len(known) < maxRefreshed:
			return failed
		default:
			after = known[len(known)-1].GetRunId()
		}
	}
}

// refresh copies the new points of some runs. It returns the runs that have to be copied as a whole, and if ingest has not examined
// all runs, the last one that it has.
func (c *Copier) refresh(ctx context.Context, known []*ingestpeerv1.SummarizedRun, now time.Time) (until string, whole []string, err error) {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	out, err := c.Ingest.SummarizeRuns(call, &ingestpeerv1.SummarizeRunsRequest{Runs: known})
	if err != nil {
		return "", nil, fmt.Errorf("summarize runs: %w", err)
	}
	d := deltasOf(out, known, now)
	var replaced []string
	err = pg.InTx(ctx, c.Pool, func(ctx context.Context, tx pgx.Tx) error {
		replaced, err = c.Store.saveDeltas(ctx, tx, d)
		return err
	})
	return out.GetUntil(), append(d.whole, replaced...), err
}

// copyAll copies runs as a whole, except those that rest. The failure of one run does not stop the others, unless ingest is busy or
// cannot be reached.
func (c *Copier) copyAll(ctx context.Context, runs []string) error {
	began := c.Clock.Now()
	var errs []error
	for _, id := range runs {
		if _, rests := c.resting[id]; rests {
			continue
		}
		err := c.copyWhole(ctx, id)
		errs = append(errs, err)
		if ctx.Err() != nil || fault.Is(err, fault.Unavailable) || c.Clock.Now().Sub(began) > maxPass {
			break // a later pass copies the others
		}
	}
	return errors.Join(errs...)
}

// copyWhole copies the reports of a run as a whole.
func (c *Copier) copyWhole(ctx context.Context, runID string) error {
	began := c.Clock.Now()
	d, err := c.Store.position(ctx, c.Pool, runID)
	if err != nil {
		return err
	}
	d.Position = 0 // ingest returns all metrics
	err = c.copy(ctx, d)
	if c.resting == nil {
		c.resting = map[string]time.Time{}
	}
	ended := c.Clock.Now()
	c.resting[runID] = ended.Add(rest * ended.Sub(began))
	return err
}

// deltas are the new points of runs. The lists of runs and of metrics are columns.
type deltas struct {
	now   time.Time
	whole []string // the runs that have to be copied as a whole

	runs            []string
	positions       []int64
	rows, knownRows []int64
	shown           []string

	metricRuns, keys    []string
	firstStep, lastStep []int64
	last                []float64
	min, max            []*float64
}

func deltasOf(out *ingestpeerv1.SummarizeRunsResponse, known []*ingestpeerv1.SummarizedRun, now time.Time) *deltas {
	rows := make(map[string]int64, len(known))
	for _, k := range known {
		rows[k.GetRunId()] = k.GetRows()
	}
	d := &deltas{now: now}
	for _, r := range out.GetRuns() {
		if r.GetWhole() {
			d.whole = append(d.whole, r.GetRunId())
			continue
		}
		d.runs, d.positions = append(d.runs, r.GetRunId()), append(d.positions, r.GetPosition())
		d.rows, d.knownRows, d.shown = append(d.rows, r.GetRows()), append(d.knownRows, rows[r.GetRunId()]), append(d.shown, r.GetShown())
		for _, m := range r.GetMetrics() {
			if !storableKey(m.GetKey()) {
				continue
			}
			d.metricRuns, d.keys = append(d.metricRuns, r.GetRunId()), append(d.keys, m.GetKey())
			d.firstStep, d.lastStep, d.last = append(d.firstStep, m.GetFirstStep()), append(d.lastStep, m.GetLastStep()), append(d.last, m.GetLast())
			d.min, d.max = append(d.min, m.Min), append(d.max, m.Max) //nolint:protogetter // nil becomes NULL
		}
	}
	return d
}

// keep removes the runs that are not wanted.
func (d *deltas) keep(wanted func(runID string) bool) {
	n := 0
	for i, id := range d.runs {
		if wanted(id) {
			d.runs[n], d.positions[n], d.rows[n], d.knownRows[n], d.shown[n] = id, d.positions[i], d.rows[i], d.knownRows[i], d.shown[i]
			n++
		}
	}
	d.runs, d.positions, d.rows, d.knownRows, d.shown = d.runs[:n], d.positions[:n], d.rows[:n], d.knownRows[:n], d.shown[:n]
	n = 0
	for i, id := range d.metricRuns {
		if wanted(id) {
			d.metricRuns[n], d.keys[n], d.firstStep[n], d.lastStep[n] = id, d.keys[i], d.firstStep[i], d.lastStep[i]
			d.last[n], d.min[n], d.max[n] = d.last[i], d.min[i], d.max[i]
			n++
		}
	}
	d.metricRuns, d.keys, d.firstStep, d.lastStep = d.metricRuns[:n], d.keys[:n], d.firstStep[:n], d.lastStep[:n]
	d.last, d.min, d.max = d.last[:n], d.min[:n], d.max[:n]
}
