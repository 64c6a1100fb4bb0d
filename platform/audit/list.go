package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Filter selects rows. A zero field matches all rows.
type Filter struct {
	Actor                        string // an id or a name
	Action, TargetKind, TargetID string
	From, To                     time.Time // From is inclusive, To exclusive
}

// Point is a position in a list. Lists are ordered by time, then by id, newest first.
type Point struct {
	At time.Time
	ID string
}

// IsZero reports whether p is the position before the newest row.
func (p Point) IsZero() bool { return p.ID == "" && p.At.IsZero() }

// Compare returns a negative number if p comes before o in a list, a positive number if it comes after o, and
// otherwise 0.
func (p Point) Compare(o Point) int {
	if n := o.At.Compare(p.At); n != 0 {
		return n
	}
	return strings.Compare(o.ID, p.ID)
}

// JSON columns are read as text, to preserve them byte for byte.
const columns = `a.id, a.seq, a.at, a.actor_kind, a.actor_id, a.actor_name, a.session_id, a.client_addr,
	a.action, a.target_kind, a.target_id, a.before::text, a.after::text, a.request_id`

// query builds the statement of a list. It contains only the conditions that are set, so that Postgres plans each
// combination separately.
type query struct {
	where []string
	args  []any
}

// arg adds a value and returns its placeholder.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return fmt.Sprintf("$%d", len(q.args))
}

func (q *query) equal(column, value string) {
	if value != "" {
		q.where = append(q.where, column+" = "+q.arg(value))
	}
}

func (q *query) bound(condition string, t time.Time) {
	if !t.IsZero() {
		q.where = append(q.where, condition+" "+q.arg(t))
	}
}

// newest returns the query of the rows that match the filter and come after a position in the list.
func newest(f Filter, after Point) *query {
	q := &query{}
	if f.Actor != "" {
		actor := q.arg(f.Actor)
		q.where = append(q.where, "(a.actor_id = "+actor+" OR a.actor_name = "+actor+")")
	}
	q.equal("a.action", f.Action)
	q.equal("a.target_kind", f.TargetKind)
	q.equal("a.target_id", f.TargetID)
	q.bound("a.at >=", f.From)
	q.bound("a.at <", f.To)
	if !after.IsZero() {
		q.where = append(q.where, "(a.at, a.id) < ("+q.arg(after.At)+", "+q.arg(after.ID)+")")
	}
	return q
}

// sql returns the complete statement.
func (q *query) sql(columns string, limit, offset int) string {
	where := ""
	if len(q.where) > 0 {
		where = " WHERE " + strings.Join(q.where, " AND ")
	}
	return "SELECT " + columns + " FROM audit a" + where + " ORDER BY a.at DESC, a.id DESC LIMIT " + q.arg(limit) + " OFFSET " + q.arg(offset)
}

// List returns one page of the matching rows, newest first.
func List(ctx context.Context, db pg.Querier, f Filter, p request.Page) ([]Row, error) {
	return rows(ctx, db, newest(f, Point{}), p.Limit, p.Offset)
}

// After returns the matching rows that come after a position, newest first.
func After(ctx context.Context, db pg.Querier, f Filter, after Point, limit int) ([]Row, error) {
	return rows(ctx, db, newest(f, after), limit, 0)
}

func rows(ctx context.Context, db pg.Querier, q *query, limit, offset int) ([]Row, error) {
	sql := q.sql(columns, limit, offset)
	found, err := db.Query(ctx, sql, q.args...)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (Row, error) {
		var r Row
		return r, row.Scan(r.into()...)
	})
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	return list, nil
}

// Points returns the positions of the matching rows that come after a position. It is cheaper than After for rows
// that the caller only skips.
func Points(ctx context.Context, db pg.Querier, f Filter, after Point, limit int) ([]Point, error) {
	q := newest(f, after)
	sql := q.sql("a.at, a.id", limit, 0)
	found, err := db.Query(ctx, sql, q.args...)
	if err != nil {
		return nil, fmt.Errorf("list the positions of the audit log: %w", err)
	}
	list, err := pgx.CollectRows(found, pgx.RowToStructByPos[Point])
	if err != nil {
		return nil, fmt.Errorf("list the positions of the audit log: %w", err)
	}
	return list, nil
}

// Point returns the row's position in a list.
func (r *Row) Point() Point { return Point{At: r.At, ID: r.ID} }

// Shorten limits the total size of the Before and After states in a list to about the given budget, in bytes. It adds
// up the sizes from the first row on and replaces each state beyond the budget with its length and digest.
func Shorten(list []Row, budget int) {
	for i := range list {
		for _, state := range []*[]byte{(*[]byte)(&list[i].Before), (*[]byte)(&list[i].After)} {
			if budget -= len(*state); budget < 0 && len(*state) > shortest {
				*state = digest(*state)
			}
		}
	}
}

// shortest is the approximate size of a digest. States up to this size are never replaced.
const shortest = 128

func (r *Row) into() []any {
	return []any{
		&r.ID, &r.Seq, &r.At, &r.Actor.Kind, &r.Actor.ID, &r.Actor.Name, &r.Actor.SessionID, &r.Actor.ClientAddr,
		&r.Action, &r.TargetKind, &r.TargetID, &r.Before, &r.After, &r.Actor.RequestID,
	}
}
