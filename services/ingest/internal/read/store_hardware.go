package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// HardwareSample is one sample of a series.
type HardwareSample struct {
	At      time.Time
	Value   float64
	Attempt int32
}

// HardwareSeries holds the samples of one metric of one device, sorted by time. Node and GPU are empty if the report
// did not name them.
type HardwareSeries struct {
	Node, GPU, Key string
	Points         []HardwareSample
	Omitted        int64 // number of samples that Points lacks, because there are too many
}

// HardwareStore reads hardware samples.
type HardwareStore struct{ Pool pg.Querier }

// HardwareQuery selects the samples that List returns. Keys, Node, Since and Until select everything if they are empty,
// nil or zero. Points is required.
type HardwareQuery struct {
	Keys         []string
	Node         *string
	Since, Until time.Time
	// Points is the maximum number of points per series, at least 5.
	Points int
}

// maxHardwareSamples is the maximum number of points in one response, so that the response fits into a gRPC message.
const maxHardwareSamples = 90_000

// List returns a page of a run's series, sorted by node, GPU and key. Long series are thinned. more reports whether
// another page follows.
func (s *HardwareStore) List(ctx context.Context, runID string, ask HardwareQuery, p request.Page) (found []HardwareSeries, more bool, err error) {
	ids, found, err := s.series(ctx, runID, ask, p)
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	found, more = request.CutPage(found, p)
	most := min(ask.Points, maxHardwareSamples/len(found))
	kept := map[int32]*kept{}
	for _, id := range ids[:len(found)] {
		kept[id] = newKept(most)
	}
	if err := s.read(ctx, runID, ask, kept); err != nil {
		return nil, false, err
	}
	for i := range found {
		points := kept[ids[i]].thinned(most)
		found[i].Omitted = metric.Omitted(points)
		for _, seen := range points {
			found[i].Points = append(found[i].Points, HardwareSample{At: time.UnixMicro(seen.Micros).UTC(), Value: seen.Value, Attempt: seen.Attempt})
		}
	}
	return found, more, nil
}

func (s *HardwareStore) series(ctx context.Context, runID string, ask HardwareQuery, p request.Page) ([]int32, []HardwareSeries, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, node, gpu, key FROM hardware_series WHERE run_id = $1
		AND ($2::text[] IS NULL OR key = ANY($2)) AND ($3::text IS NULL OR node = $3) ORDER BY node, gpu, key LIMIT $4 OFFSET $5`,
		runID, ask.Keys, ask.Node, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, nil, fmt.Errorf("list hardware series: %w", err)
	}
	var ids []int32
	var found []HardwareSeries
	var id int32
	var one HardwareSeries
	_, err = pgx.ForEachRow(rows, []any{&id, &one.Node, &one.GPU, &one.Key}, func() error {
		ids, found = append(ids, id), append(found, one)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list hardware series: %w", err)
	}
	return ids, found, nil
}

// read adds the points in the requested time range to their series in wanted, which is a map by series id.
func (s *HardwareStore) read(ctx context.Context, runID string, ask HardwareQuery, wanted map[int32]*kept) error {
	since, until := moment(ask.Since), moment(ask.Until)
	rows, err := s.Pool.Query(ctx, `SELECT attempt, data FROM hardware_batch WHERE run_id = $1
		AND ($2::timestamptz IS NULL OR last_at >= $2) AND ($3::timestamptz IS NULL OR first_at < $3) ORDER BY seq`, runID, since, until)
	if err != nil {
		return fmt.Errorf("read hardware: %w", err)
	}
	var attempt int32
	var data []byte
	var points []metric.Point
	_, err = pgx.ForEachRow(rows, []any{&attempt, &data}, func() error {
		if points, err = metric.Unpack(data, points[:0], nil); err != nil {
			return err
		}
		for _, p := range points {
			if k := wanted[p.Key]; k != nil && within(p.Micros, since, until) {
				k.add(metric.Seen{Step: p.Micros, Value: p.Value, Micros: p.Micros, Attempt: attempt})
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read hardware: %w", err)
	}
	return nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func within(micros int64, since, until *time.Time) bool {
	return (since == nil || micros >= since.UnixMicro()) && (until == nil || micros < until.UnixMicro())
}

// kept collects the points of a series while the series is read. Whenever it has 2*room points, it thins them to room,
// so that it never holds all points of a long series.
type kept struct {
	points []metric.Seen
	room   int
}

// spare is the ratio of room to the maximum number of returned points.
const spare = 4

func newKept(most int) *kept { return &kept{room: max(64, spare*most)} }

func (k *kept) add(p metric.Seen) {
	if k.points = append(k.points, p); len(k.points) >= 2*k.room {
		k.points = k.thinned(k.room)
	}
}

// thinned sorts the points by time and returns them, thinned to at most the given number.
func (k *kept) thinned(most int) []metric.Seen {
	slices.SortStableFunc(k.points, func(a, b metric.Seen) int { return cmp.Compare(a.Micros, b.Micros) })
	return metric.Thin(k.points, most)
}
