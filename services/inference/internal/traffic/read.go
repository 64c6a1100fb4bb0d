package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Filter selects calls of a deployment. A field that is not set does not restrict them.
type Filter struct {
	Token   string
	Outcome string
	// Status is a status such as 404, or a class such as 4xx.
	Status   string
	From, To *time.Time
	Revision *int32
	// MinLatency is in milliseconds.
	MinLatency *float64
	// AfterTime and After are the time and the request id of a position in the list: only the calls that follow it are
	// listed.
	AfterTime time.Time
	After     string
}

// statuses returns the lowest and highest status that the filter selects.
func (f Filter) statuses() (least, most int) {
	if f.Status == "" {
		return 0, 999
	}
	at := func(x string) (n int) {
		for _, digit := range strings.ReplaceAll(f.Status, "x", x) {
			n = 10*n + int(digit-'0')
		}
		return n
	}
	return at("0"), at("9")
}

const where = ` FROM call WHERE deployment_id = $1 AND ($2 = '' OR token_id = $2) AND ($3 = '' OR outcome = $3)
	AND status BETWEEN $4 AND $5 AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
	AND ($8::integer IS NULL OR revision_number = $8) AND ($9::double precision IS NULL OR duration_ms >= $9)`

func (f Filter) args(deployment string, more ...any) []any {
	least, most := f.statuses()
	return append([]any{deployment, f.Token, f.Outcome, least, most, f.From, f.To, f.Revision, f.MinLatency}, more...)
}

// List returns a page of a deployment's calls, newest first. If more calls follow, it returns one call more than the
// page size.
func (s *Store) List(ctx context.Context, deployment string, f Filter, p request.Page) ([]*Call, error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+strings.Join(columns(), ", ")+where+
		` AND ($12 = '' OR at <= $13 AND (at, request_id) < ($13, $12)) ORDER BY at DESC, request_id DESC LIMIT $10 OFFSET $11`,
		f.args(deployment, p.FetchLimit(), p.Offset, f.After, f.AfterTime)...)
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	calls, err := pgx.CollectRows(rows, scanCall)
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	return calls, nil
}

func scanCall(row pgx.CollectableRow) (*Call, error) {
	c := &Call{}
	return c, row.Scan(c.targets()...)
}

// Get returns one call of a deployment, or a fault.Absent error if the call is not recorded.
func (s *Store) Get(ctx context.Context, deployment, requestID string) (*Call, error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+strings.Join(columns(), ", ")+` FROM call
		WHERE deployment_id = $1 AND request_id = $2 ORDER BY at LIMIT 1`, deployment, requestID)
	if err != nil {
		return nil, fmt.Errorf("read a call: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCall)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("call", requestID)
	}
	if err != nil {
		return nil, fmt.Errorf("read a call: %w", err)
	}
	return c, nil
}

// Point summarizes the calls of one time step.
type Point struct {
	At                                     time.Time
	Calls, OK, ClientClosed, ClientError   int64
	PromptTokens, CompletionTokens         int64
	RequestBytes, ResponseBytes            int64
	TTFT50, TTFT95, Duration50, Duration95 *float64
}

const series = `SELECT date_bin(make_interval(secs => $10), at, $6), count(*), count(*) FILTER (WHERE outcome = 'ok'),
	count(*) FILTER (WHERE outcome = 'client_closed'), count(*) FILTER (WHERE outcome = 'client_error'), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),
	coalesce(sum(request_bytes), 0)::bigint, coalesce(sum(response_bytes), 0)::bigint,
	percentile_cont(0.5) WITHIN GROUP (ORDER BY ttft_ms), percentile_cont(0.95) WITHIN GROUP (ORDER BY ttft_ms),
	percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms), percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms)
	FROM (SELECT *` + where + ` LIMIT $11::bigint + 1) AS selected GROUP BY 1 ORDER BY 1`

// maxExact is the maximum number of calls in a series whose steps are not whole minutes.
const maxExact = 200_000

// Series returns the time steps from f.From to f.To that have calls, oldest first. It also filters by f.Token and
// f.Revision. If the step is a whole number of minutes, it is computed from rollups: its percentiles have a relative
// error of at most percentileError, and f.From and f.To must be whole minutes (whole hours if the step is a whole
// number of hours). Any other step is exact, and Series returns an error if the range has more than maxExact calls.
func (s *Store) Series(ctx context.Context, deployment string, f Filter, step time.Duration) ([]Point, error) {
	width := resolution(step)
	if width == 0 {
		most := int64(maxExact)
		return s.exactSeries(ctx, deployment, f, step, &most)
	}
	old, f, err := s.beforeRollups(ctx, deployment, f, step)
	if err != nil || !f.From.Before(*f.To) {
		return old, err
	}
	points, err := s.rolledSeries(ctx, deployment, f, step, width)
	return append(old, points...), err
}

// beforeRollups returns the steps of calls that are older than the rollups, and the filter without their range.
// Such calls exist only in an installation that was upgraded from a version without rollups, until retention deletes
// them.
func (s *Store) beforeRollups(ctx context.Context, deployment string, f Filter, step time.Duration) ([]Point, Filter, error) {
	var since time.Time
	if err := s.Pool.QueryRow(ctx, `SELECT since FROM call_rollup_since`).Scan(&since); err != nil {
		return nil, f, fmt.Errorf("read when the rollups of calls begin: %w", err)
	}
	if !f.From.Before(since) {
		return nil, f, nil
	}
	steps := (since.Sub(*f.From) + step - 1) / step
	begin, old := f.From.Add(steps*step), f
	if begin.Before(*f.To) {
		old.To = &begin
	}
	f.From = &begin
	points, err := s.exactSeries(ctx, deployment, old, step, nil)
	return points, f, err
}

// exactSeries computes a series from the calls themselves. It reads at most the given number of them, and returns an
// error if there are more.
func (s *Store) exactSeries(ctx context.Context, deployment string, f Filter, step time.Duration, most *int64) ([]Point, error) {
	rows, err := s.Pool.Query(ctx, series, f.args(deployment, step.Seconds(), most)...)
	if err != nil {
		return nil, fmt.Errorf("read the series of calls: %w", err)
	}
	var calls int64
	points, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Point, err error) {
		err = row.Scan(&p.At, &p.Calls, &p.OK, &p.ClientClosed, &p.ClientError, &p.PromptTokens, &p.CompletionTokens,
			&p.RequestBytes, &p.ResponseBytes, &p.TTFT50, &p.TTFT95, &p.Duration50, &p.Duration95)
		calls += p.Calls
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the series of calls: %w", err)
	}
	if most != nil && calls > *most {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue,
			fmt.Sprintf("step_s should be a multiple of 60, because the range has more than %d calls", *most), "step_s"))
	}
	return points, nil
}
