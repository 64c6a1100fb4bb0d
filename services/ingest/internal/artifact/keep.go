package artifact

import (
	"context"
	"math"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Keeping states which checkpoints of a run are kept.
type Keeping struct {
	// Last is the number of the newest checkpoints that are kept, at least 1.
	Last int
	// Best is the key of the metric whose best checkpoint is kept too, or empty.
	Best string
	// Maximize means that the highest value of the metric is the best one.
	Maximize bool
}

// MetricValue returns the last value that a run reported for a metric at the steps from from to to, both included. ok is false if the
// metric has no value there, or one that is not a number.
type MetricValue func(ctx context.Context, runID, key string, from, to int64) (value float64, ok bool, err error)

// Keeper removes the checkpoints that a run does not keep. A removed checkpoint keeps its row, and for a while its object:
// Freer deletes the object.
type Keeper struct {
	Pool  pg.Querier
	Value MetricValue
}

// Removed describes the checkpoints that a call has removed.
type Removed struct {
	Count int64
	Bytes int64
}

// Apply removes the checkpoints that the run does not keep any more. A checkpoint consists of the artifacts of the kind
// checkpoint that the same attempt registered with the same step; without a step it is one artifact. Artifacts without an
// object are not counted. Apply never removes
//   - the newest p.Last checkpoints, and the newest artifact of each format, from which the next attempt may resume;
//   - the checkpoint with the best value of the metric p.Best, and those whose value is not known yet;
//   - artifacts that were found to be in use, and those whose object a kept artifact refers to.
//
// The value of a checkpoint is read when a newer checkpoint is registered, so that the metrics of its step have arrived. If it has
// none, it is read again until it is a minute old. Concurrent calls for one run are safe.
func (k *Keeper) Apply(ctx context.Context, runID string, p Keeping) (Removed, error) {
	if p.Best != "" {
		if err := k.measure(ctx, runID, p.Best); err != nil {
			return Removed{}, err
		}
	}
	return k.remove(ctx, runID, p)
}

// measure reads the values of the checkpoints that have none yet, except the newest one.
func (k *Keeper) measure(ctx context.Context, runID, key string) error {
	due, err := k.unmeasured(ctx, runID)
	if err != nil {
		return err
	}
	for _, c := range due {
		from := int64(math.MinInt64)
		if c.After != nil {
			from = *c.After + 1
		}
		value, ok, err := k.Value(ctx, runID, key, from, c.Step)
		if err != nil {
			return err
		}
		if !ok && c.Young {
			continue
		}
		if !ok {
			value = math.NaN()
		}
		if err := k.setValue(ctx, c.ID, value); err != nil {
			return err
		}
	}
	return nil
}
