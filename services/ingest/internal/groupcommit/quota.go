package groupcommit

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is a kind of data whose size is limited per run.
type Kind int

// The kinds of data. Reports are all data that is of no other kind.
const (
	Reports Kind = iota
	Points
	Log
	Artifacts
	kinds
)

// String returns the name of the kind in messages and metrics.
func (k Kind) String() string { return [kinds]string{"reports", "points", "log", "artifacts"}[k] }

// setting returns the setting that limits the kind.
func (k Kind) setting() string {
	return [kinds]string{
		"SERVICE_INGEST_RUN_REPORT_BYTES", "SERVICE_INGEST_RUN_POINT_BYTES", "SERVICE_INGEST_RUN_LOG_BYTES", "SERVICE_INGEST_RUN_ARTIFACT_BYTES",
	}[k]
}

// Cost is the approximate size in bytes of the row of a request and of its number. Item.Size includes it, so that the
// number of empty requests that a run can store is limited. For the same reason, ArtifactCost is added to the size of
// each object and of each registered artifact. ArtifactCost is larger than Cost, because artifacts are large and their
// limit is high. RowCost is the size of a row with its index entries, without the data of the report.
const (
	Cost         = 512
	RowCost      = 192
	ArtifactCost = 1 << 20
)

// Quota limits what one run stores. The zero Quota has no limits.
type Quota struct {
	limits [kinds]int64 // 0 means no maximum
	over   metric.Int64Counter
}

// NewQuota returns a quota with a maximum size in bytes for each kind; 0 means no maximum. meters may be nil.
func NewQuota(limits map[Kind]int64, meters metric.MeterProvider) (*Quota, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "ingest_over_limit_total"
	over, err := meters.Meter("ingest").Int64Counter(name,
		metric.WithDescription("requests of runs that were not stored because the run has reached a limit, by kind"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	q := &Quota{over: over}
	for k, n := range limits {
		q.limits[k] = n
	}
	return q, nil
}

// Limit returns the maximum size of a kind of data. 0 means that the size is not limited.
func (q *Quota) Limit(k Kind) int64 { return q.limits[k] }

// Refuse counts a request that exceeds the limit of a kind, and returns its error.
func (q *Quota) Refuse(ctx context.Context, k Kind) error {
	q.count(ctx, k)
	switch k {
	case Points:
		return q.refusal("points_limit", k)
	case Artifacts:
		return q.refusal("artifacts_limit", k)
	default:
		return q.refusal("reports_limit", k)
	}
}

func (q *Quota) refusal(code string, k Kind) error {
	return fault.New(fault.Refused, code, "%s: the run has reached its maximum of %d bytes (%s)", k, q.limits[k], k.setting())
}

// Note returns the last line of a log that has reached its maximum.
func (q *Quota) Note() []byte {
	return fmt.Appendf(nil, "[signalbox: the rest of the log is not stored, because the log of the run has reached its maximum of %d bytes (%s)]",
		q.limits[Log], Log.setting())
}

func (q *Quota) count(ctx context.Context, k Kind) {
	if q.over != nil {
		q.over.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", k.String())))
	}
}

// exceeded reports whether the item would make the run exceed the limit of the item's kind of data.
func (q *Quota) exceeded(r *Run, i *Item) bool {
	limit := q.limits[i.Kind]
	return limit > 0 && i.Size > 0 && r.size[i.Kind]+i.Size > limit
}

// spend adds the item to the size of the run's data. If over is set, the item was not stored, and spend sets the size
// to the maximum, so that no later, smaller item is stored either.
func (q *Quota) spend(r *Run, i *Item, over bool) {
	if over {
		r.size[i.Kind] = max(r.size[i.Kind], q.limits[i.Kind])
		return
	}
	r.size[i.Kind] += i.Size
}
