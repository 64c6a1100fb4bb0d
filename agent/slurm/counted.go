package slurm

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// maxSubmissions is the number of sbatch commands that may run at once. Each is a call of Slurm's controller, which other
// users of the cluster need, too.
const maxSubmissions = 4

// counted are commands that are counted. At most maxSubmissions of them are sbatch at any time.
type counted struct {
	Commands

	counter     metric.Int64Counter
	submissions chan struct{}
}

// Count returns commands that are counted by their name and result; meters may be nil. At most four sbatch run at once.
func Count(c Commands, meters metric.MeterProvider) (Commands, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "agent_slurm_commands_total"
	counter, err := meters.Meter("agent").Int64Counter(name, metric.WithDescription("commands of Slurm that the agent has run, by command and result"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return &counted{Commands: c, counter: counter, submissions: make(chan struct{}, maxSubmissions)}, nil
}

// Run implements Commands.
func (c *counted) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if name == "sbatch" {
		select {
		case c.submissions <- struct{}{}:
			defer func() { <-c.submissions }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out, err := c.Commands.Run(ctx, name, args...)
	c.counter.Add(ctx, 1, metric.WithAttributes(attribute.String("command", name), attribute.String("result", result(err))))
	return out, err
}

// result describes the result of a command in a word.
func result(err error) string {
	_, failed := errors.AsType[*CommandError](err)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case failed:
		return "failed"
	}
	return "error"
}
