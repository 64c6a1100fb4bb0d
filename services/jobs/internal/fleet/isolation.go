package fleet

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The values of a pool's isolation. Required permits only nodes that isolate the work they run.
const (
	IsolationRequired = "required"
	IsolationNone     = "none"
)

// boundaryUnknown is the Kind and the Network for a node whose agent is too old to report them.
const boundaryUnknown = "unknown"

// Boundary is what a node reports about the isolation of the work that it runs.
type Boundary struct {
	Kind       string   `json:"kind"`     // own_user, user_namespace, none or unknown
	Required   bool     `json:"required"` // the node refuses work that it cannot isolate
	Users      string   `json:"users"`    // the range of user ids under which work runs, or ""
	Namespaces []string `json:"namespaces"`
	Problem    string   `json:"problem"` // why work is not isolated, or ""
	Unlimited  []string `json:"unlimited"`
	// NetworkProblem is why the network access of work is not restricted, or "".
	NetworkProblem string `json:"network_problem,omitempty"`
	// ClosesNetwork reports whether the node can run work without network access.
	ClosesNetwork bool `json:"closes_network,omitempty"`
	// Network is how the network access of work is restricted: filter, namespace or open. It is empty if the agent is too
	// old to report it.
	Network string `json:"network,omitempty"`
	// Reasons states why each resource in Unlimited is not limited.
	Reasons map[string]string `json:"reasons,omitempty"`
}

// Isolates reports whether the node may get work of the pool. It is also true for a node that has never connected,
// because such a node may still turn out to isolate its work.
func (n *Node) Isolates(pool string) bool {
	return n.Boundary == nil || slices.Contains(n.Permitted, pool)
}

// ClosesNetwork reports whether the node can run work without network access. It is also true for a node that has never
// connected, because such a node may still turn out to be able to. For the agent of a Slurm fleet see Slurm.ClosesNetwork.
func (n *Node) ClosesNetwork() bool { return n.Boundary == nil || n.Boundary.ClosesNetwork }

// CodeIsolation is the gate and the error code for work of a pool whose nodes cannot isolate it.
const CodeIsolation = "isolation"

// RefuseIsolation returns the refusal of work for which the pool has too few nodes that isolate the work they run.
func RefuseIsolation(pool string, have, want int) *fault.Error {
	return fault.New(fault.Forbidden, CodeIsolation, "%s: pool %s has %d of the %d requested nodes that isolate the work they run; "+
		"repair what its nodes report as boundary.problem, "+
		"or have an admin permit work without isolation in the pool", CodeIsolation, pool, have, want)
}

// RefuseOpenNetwork returns the refusal of a job that must run without network access, if no node of the pool can
// ensure that.
func RefuseOpenNetwork(pool string) *fault.Error {
	return fault.New(fault.Forbidden, CodeIsolation, "%s: pool %s has no suitable node that can run a job without network access; repair what its nodes report "+
		"as boundary.network_problem, use another pool, or submit the job without spec.network", CodeIsolation, pool)
}

// RefuseSlurm returns the refusal of a job that a Slurm cluster must not run, for the given reason.
func RefuseSlurm(why string) *fault.Error {
	return fault.New(fault.Forbidden, CodeIsolation, "%s: %s", CodeIsolation, why)
}

// Refusals counts the jobs and engines that are refused because their pool has too few nodes that isolate work.
type Refusals struct{ counter metric.Int64Counter }

// The kinds of refused work.
const (
	RefusedJob    = "job"
	RefusedEngine = "engine"
)

// NewRefusals registers the counter; meters may be nil.
func NewRefusals(meters metric.MeterProvider) (*Refusals, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "jobs_isolation_refused_total"
	counter, err := meters.Meter("jobs").Int64Counter(name,
		metric.WithDescription("jobs and engines refused because too few nodes of the pool isolate work or can run it without network access, by kind"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return &Refusals{counter: counter}, nil
}

// Add counts a refusal of the given kind.
func (r *Refusals) Add(ctx context.Context, kind string) {
	r.counter.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", kind)))
}
