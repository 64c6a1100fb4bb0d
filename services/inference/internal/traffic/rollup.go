package traffic

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// resolution returns the width of the rollups that make up steps of the given length. It returns 0 if no rollups fit.
func resolution(step time.Duration) time.Duration {
	for _, width := range []time.Duration{time.Hour, time.Minute} {
		if step%width == 0 {
			return width
		}
	}
	return 0
}

// widen returns the given range, widened so that both ends are multiples of the width. If that is 0, it returns the
// range unchanged.
func widen(from, to time.Time, width time.Duration) (time.Time, time.Time) {
	if width == 0 {
		return from, to
	}
	end := to.Truncate(width)
	if end.Before(to) {
		end = end.Add(width)
	}
	return from.Truncate(width), end
}

const (
	// bucketGrowth is the upper bound of a bucket divided by that of the bucket before it. The migrations have the same
	// number in call_bucket.
	bucketGrowth = 1.04
	// leastBucket is the upper bound of bucket 0 in milliseconds. Shorter times count as 0.
	leastBucket = 0.01
	// lastBucket is the bucket of all longer times.
	lastBucket = 1000
	// percentileError is the largest relative error of a percentile that is computed from a histogram.
	percentileError = 0.02
)

// histogram counts values by bucket.
type histogram map[int32]int64

func (h histogram) add(pairs [][]int32) {
	for _, pair := range pairs {
		h[pair[0]] += int64(pair[1])
	}
}

// percentile returns the value below which the share p of the values lies, interpolated between two values like
// percentile_cont in SQL, or nil if there are no values. Its relative error is at most percentileError.
func (h histogram) percentile(p float64) *float64 {
	var n int64
	for _, count := range h {
		n += count
	}
	if n == 0 {
		return nil
	}
	rank := p * float64(n-1)
	low, high := h.at(int64(rank)), h.at(int64(math.Ceil(rank)))
	value := low + (high-low)*(rank-math.Floor(rank))
	return &value
}

// at returns the approximate value with the given rank, which counts from 0: the geometric middle of the value's
// bucket.
func (h histogram) at(rank int64) float64 {
	var bucket int32
	for _, bucket = range slices.Sorted(maps.Keys(h)) {
		if rank -= h[bucket]; rank < 0 {
			break
		}
	}
	if bucket == 0 {
		return 0
	}
	return leastBucket * math.Pow(bucketGrowth, float64(bucket)-0.5)
}

// rolled adds up rollups to the points of a series.
type rolled struct {
	from           time.Time
	step           time.Duration
	points         []Point
	ttft, duration histogram
}

const rollups = `SELECT at, calls, ok, client_closed, client_error, prompt_tokens, completion_tokens, request_bytes,
	response_bytes, ttft, duration
	FROM call_rollup WHERE deployment_id = $1 AND token_id = $2 AND width_s = $3 AND at >= $4 AND at < $5
	AND ($6::integer IS NULL OR revision_number = $6) ORDER BY at`

// rolledSeries returns the steps of the filter's range that have calls. It reads only rollups of the given width.
func (s *Store) rolledSeries(ctx context.Context, deployment string, f Filter, step, width time.Duration) ([]Point, error) {
	rows, err := s.Pool.Query(ctx, rollups, deployment, f.Token, int32(width.Seconds()), f.From, f.To, f.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the rollups of calls: %w", err)
	}
	defer rows.Close()
	sums := &rolled{from: *f.From, step: step}
	for rows.Next() {
		if err := sums.add(rows); err != nil {
			return nil, fmt.Errorf("read the rollups of calls: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the rollups of calls: %w", err)
	}
	sums.finish()
	return sums.points, nil
}

// add adds one row. The rows must be added oldest first.
func (r *rolled) add(rows pgx.Rows) error {
	var p Point
	var ttft, duration [][]int32
	if err := rows.Scan(&p.At, &p.Calls, &p.OK, &p.ClientClosed, &p.ClientError, &p.PromptTokens, &p.CompletionTokens, &p.RequestBytes,
		&p.ResponseBytes, &ttft, &duration); err != nil {
		return err
	}
	p.At = r.from.Add(p.At.Sub(r.from).Truncate(r.step))
	if len(r.points) == 0 || !r.points[len(r.points)-1].At.Equal(p.At) {
		r.finish()
		r.points = append(r.points, Point{At: p.At})
		r.ttft, r.duration = histogram{}, histogram{}
	}
	r.points[len(r.points)-1].add(p)
	r.ttft.add(ttft)
	r.duration.add(duration)
	return nil
}

// finish sets the percentiles of the last point.
func (r *rolled) finish() {
	if len(r.points) == 0 {
		return
	}
	last := &r.points[len(r.points)-1]
	last.TTFT50, last.TTFT95 = r.ttft.percentile(0.5), r.ttft.percentile(0.95)
	last.Duration50, last.Duration95 = r.duration.percentile(0.5), r.duration.percentile(0.95)
}

// add adds the sums of q to those of p.
func (p *Point) add(q Point) {
	p.Calls, p.OK = p.Calls+q.Calls, p.OK+q.OK
	p.ClientClosed, p.ClientError = p.ClientClosed+q.ClientClosed, p.ClientError+q.ClientError
	p.PromptTokens, p.CompletionTokens = p.PromptTokens+q.PromptTokens, p.CompletionTokens+q.CompletionTokens
	p.RequestBytes, p.ResponseBytes = p.RequestBytes+q.RequestBytes, p.ResponseBytes+q.ResponseBytes
}

// DeleteRollups deletes rollups of minutes and hours that began before the given time, up to the given limit.
func (s *Store) DeleteRollups(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.Pool.Exec(ctx, `DELETE FROM call_rollup WHERE ctid = ANY(ARRAY(
		SELECT ctid FROM call_rollup WHERE at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old rollups of calls: %w", err)
	}
	return tag.RowsAffected(), nil
}
