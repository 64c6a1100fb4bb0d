package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// gaugesAge is how long the values of the gauges of pools are kept. Within it, each replica reads the database once,
// however often its metrics are read.
const gaugesAge = 15 * time.Second

// poolGauges are the gauges of pools, and the values that were read last.
type poolGauges struct {
	q     pg.Querier
	clock clock.Clock
	log   *slog.Logger

	queued, nodes, gpus metric.Int64ObservableGauge
	oldest              metric.Float64ObservableGauge

	mu   sync.Mutex // guards the fields below
	read time.Time
	load *poolLoad
}

// RegisterPoolGauges registers the gauges of pools: jobs_queue_jobs has the queued jobs by the reason for which they wait,
// jobs_queue_oldest_seconds the longest wait of a queued job, jobs_nodes the nodes by state, and jobs_gpus the GPUs by
// state: free, held or unavailable. If the database cannot be read, the gauges have no values. meters may be nil.
func RegisterPoolGauges(meters metric.MeterProvider, q pg.Querier, clk clock.Clock, log *slog.Logger) error {
	if meters == nil {
		return nil
	}
	g := &poolGauges{q: q, clock: clk, log: log}
	meter := meters.Meter("jobs")
	var errs [4]error
	g.queued, errs[0] = meter.Int64ObservableGauge("jobs_queue_jobs", metric.WithDescription("queued jobs, by pool and by the reason for which they wait"))
	g.oldest, errs[1] = meter.Float64ObservableGauge("jobs_queue_oldest_seconds", metric.WithDescription("the longest time for which a queued job waits, by pool"))
	g.nodes, errs[2] = meter.Int64ObservableGauge("jobs_nodes", metric.WithDescription("nodes by pool and state"))
	g.gpus, errs[3] = meter.Int64ObservableGauge("jobs_gpus", metric.WithDescription("GPUs by pool and state: free, held or unavailable"))
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("create the gauges of pools: %w", err)
	}
	if _, err := meter.RegisterCallback(g.observe, g.queued, g.oldest, g.nodes, g.gpus); err != nil {
		return fmt.Errorf("register the gauges of pools: %w", err)
	}
	return nil
}

func (g *poolGauges) observe(ctx context.Context, o metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, gaugesTimeout)
	defer cancel()
	load, err := g.current(ctx)
	if err != nil {
		g.log.WarnContext(ctx, "cannot read the pools for the metrics", "error", err)
		return nil
	}
	labels := func(pool, key, value string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("pool", pool), attribute.String(key, value))
	}
	for _, w := range load.queue {
		o.ObserveInt64(g.queued, w.Jobs, labels(w.Pool, "reason", w.Reason))
	}
	for pool, wait := range load.oldest() {
		o.ObserveFloat64(g.oldest, wait, metric.WithAttributes(attribute.String("pool", pool)))
	}
	for pool, n := range load.sum() {
		for state, nodes := range n.nodes {
			o.ObserveInt64(g.nodes, nodes, labels(pool, "state", state))
		}
		for state, gpus := range n.gpus {
			o.ObserveInt64(g.gpus, gpus, labels(pool, "state", state))
		}
	}
	return nil
}

// current returns the values, and reads them if they are older than gaugesAge.
func (g *poolGauges) current(ctx context.Context) (*poolLoad, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if g.load != nil && now.Sub(g.read) < gaugesAge {
		return g.load, nil
	}
	load, err := readPools(ctx, g.q)
	if err != nil {
		return nil, err
	}
	g.read, g.load = now, load
	return load, nil
}

// poolLoad is what the gauges show of the pools.
type poolLoad struct {
	queue []*queueRow
	nodes []*nodesRow
}

// queueRow has the queued jobs of one pool that wait for one reason, and the longest wait.
type queueRow struct {
	Pool, Reason string
	Jobs         int64
	Oldest       float64
}

// nodesRow has the nodes of one pool that are in one state, with their GPUs. Usable means that they can get work of the pool.
type nodesRow struct {
	Pool, State       string
	Usable            bool
	Nodes, GPUs, Held int64
}

// oldest returns the longest wait in seconds by pool: 0 for a pool with nodes and without queued jobs.
func (l *poolLoad) oldest() map[string]float64 {
	waits := map[string]float64{}
	for _, n := range l.nodes {
		waits[n.Pool] = 0
	}
	for _, w := range l.queue {
		waits[w.Pool] = max(waits[w.Pool], w.Oldest)
	}
	return waits
}

// poolNodes has the nodes and the GPUs of a pool by state.
type poolNodes struct{ nodes, gpus map[string]int64 }

// nodeStates returns the states of nodes, as GET /api/cluster/nodes shows them.
func nodeStates() []string {
	return []string{"joining", "ready", "draining", "drained", "cordoned", "unhealthy", "lost"}
}

// sum returns the nodes and GPUs by pool. States that no node has are 0, so that a change is seen.
func (l *poolLoad) sum() map[string]poolNodes {
	pools := map[string]poolNodes{}
	for _, row := range l.nodes {
		p, ok := pools[row.Pool]
		if !ok {
			p = poolNodes{nodes: map[string]int64{}, gpus: map[string]int64{"free": 0, "held": 0, "unavailable": 0}}
			for _, state := range nodeStates() {
				p.nodes[state] = 0
			}
			pools[row.Pool] = p
		}
		p.nodes[row.State] += row.Nodes
		p.gpus["held"] += row.Held
		rest := "unavailable"
		if row.Usable {
			rest = "free"
		}
		p.gpus[rest] += row.GPUs - row.Held
	}
	return pools
}
