package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// gaugesTimeout bounds the queries of one reading of the metrics.
const gaugesTimeout = 2 * time.Second

// RegisterGauges registers the gauges of Slurm clusters: jobs_slurm_held has the jobs that a cluster holds, by the fleet
// and a class of Slurm's reasons, and jobs_slurm_pool_usable is 1 for each pool of a fleet that can get work, otherwise 0.
// Each reading of the metrics reads the database. If that fails, the gauges have no values. meters may be nil.
func RegisterGauges(meters metric.MeterProvider, q pg.Querier, log *slog.Logger) error {
	if meters == nil {
		return nil
	}
	meter := meters.Meter("jobs")
	held, heldErr := meter.Int64ObservableGauge("jobs_slurm_held",
		metric.WithDescription("jobs that a Slurm cluster holds, by fleet and by class of the reason: capacity, limits, nodes, submission or other"))
	usable, usableErr := meter.Int64ObservableGauge("jobs_slurm_pool_usable",
		metric.WithDescription("1 if a pool of a Slurm fleet can get work; 0 if its agent is away, or if its test has failed or not ended"))
	if err := errors.Join(heldErr, usableErr); err != nil {
		return fmt.Errorf("create the gauges of Slurm clusters: %w", err)
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, gaugesTimeout)
		defer cancel()
		loads, err := readSlurm(ctx, q)
		if err != nil {
			log.WarnContext(ctx, "cannot read the Slurm fleets for the metrics", "error", err)
			return nil
		}
		for _, f := range loads {
			fleet := attribute.String("fleet", f.name)
			for _, class := range reasonClasses() {
				o.ObserveInt64(held, f.held[class], metric.WithAttributes(fleet, attribute.String("reason", class)))
			}
			for pool, can := range f.usable {
				value := int64(0)
				if can {
					value = 1
				}
				o.ObserveInt64(usable, value, metric.WithAttributes(fleet, attribute.String("pool", pool)))
			}
		}
		return nil
	}, held, usable)
	if err != nil {
		return fmt.Errorf("register the gauges of Slurm clusters: %w", err)
	}
	return nil
}

// reasonClasses returns the classes of the reasons for which Slurm holds jobs, as reasonClass computes them.
func reasonClasses() []string { return []string{"capacity", "limits", "nodes", "submission", "other"} }

// slurmLoad is what the gauges show of a Slurm fleet.
type slurmLoad struct {
	id     string
	name   string
	held   map[string]int64 // jobs by class of the reason
	usable map[string]bool  // by pool
}
