package runsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// maxParams is the maximum number of hyperparameters that are copied of a run. Ingest bounds the number of metrics.
	maxParams = 500
	// maxClaim is the maximum number of runs that are claimed together.
	maxClaim = 10
	// maxPass is the time after which a pass claims no further runs, so that the copies take at most about half of the
	// time of one connection to ingest.
	maxPass = 5 * time.Second
	// A run whose copy takes longer than slow, because it has very many points, is copied less often: the pause is rest
	// times as long.
	slow = time.Second
	rest = 20
	// again is the time after which the hyperparameters of a run that has not ended are copied again. Refresh copies its metrics
	// sooner.
	again = time.Minute
	// callLimit is the time limit of one call to ingest. A run with very many points takes seconds.
	callLimit = 30 * time.Second
)

// Copier copies what runs report from the ingest service. Several replicas may copy: each run of a pass is claimed by
// one of them.
type Copier struct {
	Pool   *pgxpool.Pool
	Store  Store
	Ingest ingestpeerv1.RunDataPeerServiceClient
	Clock  clock.Clock

	resting map[string]time.Time // until when Refresh does not copy runs as a whole; only Refresh uses it
}

// RunOnce copies the reports of the runs that are due. The failure of one run does not stop the others, unless ingest is
// busy or cannot be reached.
func (c *Copier) RunOnce(ctx context.Context) error {
	began := c.Clock.Now()
	for {
		due, err := c.Store.claim(ctx, c.Pool)
		if err != nil {
			return err
		}
		var errs []error
		for _, d := range due {
			err := c.measured(ctx, d)
			errs = append(errs, err)
			if ctx.Err() != nil || fault.Is(err, fault.Unavailable) {
				return errors.Join(errs...) // the others are due again in a minute
			}
		}
		if err := errors.Join(errs...); err != nil || len(due) < maxClaim || c.Clock.Now().Sub(began) > maxPass {
			return err
		}
	}
}

// measured copies the reports of a run, and puts off its next copy if this one took long.
func (c *Copier) measured(ctx context.Context, d *due) error {
	began := c.Clock.Now()
	err := c.copy(ctx, d)
	if took := c.Clock.Now().Sub(began); took > slow {
		return errors.Join(err, c.Store.putOff(ctx, c.Pool, d.ID, rest*took))
	}
	return err
}

// CopyRun copies the reports of one run.
func (c *Copier) CopyRun(ctx context.Context, runID string) error {
	d, err := c.Store.position(ctx, c.Pool, runID)
	if err != nil {
		return err
	}
	return c.copy(ctx, d)
}

func (c *Copier) copy(ctx context.Context, d *due) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	out, err := c.Ingest.SummarizeRun(call, &ingestpeerv1.SummarizeRunRequest{RunId: d.ID, Position: d.Position})
	if fault.Is(err, fault.Absent) {
		return nil // it has not reported yet, or its data has expired
	}
	if err != nil {
		return fmt.Errorf("summarize run %s: %w", d.ID, err)
	}
	s, err := summaryOf(out, d)
	if err != nil {
		return fmt.Errorf("summarize run %s: %w", d.ID, err)
	}
	return pg.InTx(ctx, c.Pool, func(ctx context.Context, tx pgx.Tx) error { return c.Store.save(ctx, tx, s) })
}

// due is a run whose reports are copied, with the position of the former copy.
type due struct {
	ID       string
	Position int64
	Now      time.Time
	// Goals has "minimize" or "maximize" for the metrics that have a best value.
	Goals map[string]string
}

// summary is a copy of the reports of a run. Its lists are columns.
type summary struct {
	runID          string
	position       int64
	asOf           time.Time
	final          bool
	unchanged      bool // the metrics are those of the former copy
	params, values []string
	numbers        []*float64
	paramsLeftOut  int

	metrics        []string
	last, min, max []*float64
	best           []*float64
	lastStep       []*int64
	metricsLeftOut bool
	// rows and shown are where the copy of the metrics continues.
	rows  int64
	shown string
}

func summaryOf(out *ingestpeerv1.SummarizeRunResponse, d *due) (*summary, error) {
	s := &summary{
		// The summary of an earlier version of ingest is copied once more when ingest is upgraded.
		runID: d.ID, position: out.GetPosition(), asOf: d.Now, final: out.GetClosed() && out.GetResumeSteps(), metricsLeftOut: out.GetMore(),
		rows: out.GetRows(), shown: out.GetShown(),
		params: []string{}, metrics: []string{},
		// Keys never disappear from a run, so a response without metrics leaves them as they are.
		unchanged: d.Position > 0 && out.GetPosition() == d.Position && len(out.GetMetrics()) == 0,
	}
	for _, m := range out.GetMetrics() {
		if !storableKey(m.GetKey()) {
			s.metricsLeftOut = true
			continue
		}
		s.metrics = append(s.metrics, m.GetKey())
		s.last, s.min, s.max = append(s.last, m.Last), append(s.min, m.Min), append(s.max, m.Max)                      //nolint:protogetter // nil becomes NULL
		s.best, s.lastStep = append(s.best, bestOf(d.Goals[m.GetKey()], m.Min, m.Max)), append(s.lastStep, m.LastStep) //nolint:protogetter // nil becomes NULL
	}
	return s, s.addParams(out.GetParams())
}

func (s *summary) addParams(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(data, &params); err != nil {
		return fmt.Errorf("read hyperparameters: %w", err)
	}
	keys := make([]string, 0, len(params))
	for key := range params {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		value, x := normal(params[key])
		if len(s.params) == maxParams || !storableKey(key) || len(value) > maxText {
			s.paramsLeftOut++
			continue
		}
		s.params, s.values, s.numbers = append(s.params, key), append(s.values, value), append(s.numbers, x)
	}
	return nil
}

// normal returns a value in the form that filters compare, and the value of a number.
func normal(value json.RawMessage) (text string, x *float64) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(value), nil
	}
	if f, ok := numberOf(v); ok {
		return strings.TrimSpace(string(value)), &f
	}
	data, err := json.Marshal(v)
	if err != nil {
		return string(value), nil
	}
	return string(data), nil
}
