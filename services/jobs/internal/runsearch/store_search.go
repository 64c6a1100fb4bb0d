package runsearch

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Store searches runs, and holds the copies of their reports.
type Store struct{}

// query is a search for runs.
type query struct {
	filter   []byte // JSON, or empty
	archived string // "true", "all", or "" for runs that are not archived
	order    order
	after    *place
	limit    int
}

// hit is a run that was found, with its fact if the order is by a fact.
type hit struct {
	ID    string
	Value *float64
}

func (q *query) selection(scope authn.Scope) (*db.Selection, error) {
	f := &filter{Selection: db.Select(scope)}
	switch q.archived {
	case "all":
	case "true":
		f.And(`archived_at IS NOT NULL`)
	default:
		f.And(`archived_at IS NULL`)
	}
	return f.Selection, f.where(q.filter)
}

// search returns up to limit runs that callers with this scope may see, in the order of the query.
func (s Store) search(ctx context.Context, db pg.Querier, scope authn.Scope, q *query) ([]hit, error) {
	if q.order.fact == nil {
		return s.byColumn(ctx, db, scope, q)
	}
	var hits []hit
	if q.after == nil || q.after.Value != "" {
		found, err := s.byFact(ctx, db, scope, q)
		if err != nil || len(found) == q.limit {
			return found, err
		}
		hits = found
	}
	rest, err := s.withoutFact(ctx, db, scope, q, q.limit-len(hits))
	return append(hits, rest...), err
}

func (s Store) byColumn(ctx context.Context, db pg.Querier, scope authn.Scope, q *query) ([]hit, error) {
	chosen, err := q.selection(scope)
	if err != nil {
		return nil, err
	}
	direction, after := q.order.direction()
	if q.after != nil {
		key, err := s.keyOf(ctx, db, scope, q)
		if err != nil {
			return nil, err
		}
		chosen.And(`(`, q.order.key, `, id)`, after, `(`, chosen.Arg(key), `::text::`, q.order.keyType, `, `, chosen.Arg(q.after.ID), `)`)
	}
	return hitsOf(db.Query(ctx, `SELECT id, NULL::double precision FROM run WHERE `+chosen.Where+
		` ORDER BY `+q.order.key+direction+`, id`+direction+` LIMIT `+chosen.Arg(q.limit), chosen.Args...))
}

// keyOf returns the key of the run that ends the previous page, as text.
func (Store) keyOf(ctx context.Context, db pg.Querier, scope authn.Scope, q *query) (key string, err error) {
	err = db.QueryRow(ctx, `SELECT (`+q.order.key+`)::text FROM run WHERE `+access.Visible+` AND id = $4`, access.Args(scope, q.after.ID)...).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", fault.InvalidFields(fault.At(fault.TypeValue, "The run that ends the previous page is gone; begin again without after", "after"))
	}
	if err != nil {
		return "", fmt.Errorf("find the run that ends the previous page: %w", err)
	}
	return key, nil
}

// byFact returns the runs that have the fact. NaN does not count: Postgres sorts it above all numbers.
func (Store) byFact(ctx context.Context, db pg.Querier, scope authn.Scope, q *query) ([]hit, error) {
	chosen, err := q.selection(scope)
	if err != nil {
		return nil, err
	}
	t := q.order.fact
	direction, after := q.order.direction()
	chosen.And(`f.key = `, chosen.Arg(t.key), ` AND f.`, t.number, ` < 'NaN'`)
	if q.after != nil {
		chosen.And(`(f.`, t.number, `, f.run_id)`, after, `(`, chosen.Arg(q.after.Value), `::text::double precision, `, chosen.Arg(q.after.ID), `)`)
	}
	return hitsOf(db.Query(ctx, `SELECT id, f.`+t.number+` FROM `+t.table+` f JOIN run ON run.id = f.run_id WHERE `+chosen.Where+
		` ORDER BY f.`+t.number+direction+`, f.run_id`+direction+` LIMIT `+chosen.Arg(q.limit), chosen.Args...))
}

// withoutFact returns the runs that lack the fact, the newest first.
func (Store) withoutFact(ctx context.Context, db pg.Querier, scope authn.Scope, q *query, limit int) ([]hit, error) {
	chosen, err := q.selection(scope)
	if err != nil {
		return nil, err
	}
	t := q.order.fact
	chosen.And(`NOT EXISTS (SELECT FROM `, t.table, ` f WHERE f.run_id = run.id AND f.key = `, chosen.Arg(t.key), ` AND f.`, t.number, ` < 'NaN')`)
	if q.after != nil && q.after.Value == "" {
		chosen.And(`id < `, chosen.Arg(q.after.ID))
	}
	return hitsOf(db.Query(ctx, `SELECT id, NULL::double precision FROM run WHERE `+chosen.Where+` ORDER BY id DESC LIMIT `+chosen.Arg(limit), chosen.Args...))
}

func hitsOf(rows pgx.Rows, err error) ([]hit, error) {
	if err != nil {
		return nil, fmt.Errorf("search runs: %w", err)
	}
	hits, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hit])
	if err != nil {
		return nil, fmt.Errorf("search runs: %w", err)
	}
	return hits, nil
}

// end returns the place after a hit.
func (q *query) end(h hit) *place {
	p := &place{Sort: q.order.name, Asc: q.order.asc, ID: h.ID}
	if h.Value != nil {
		p.Value = strconv.FormatFloat(*h.Value, 'g', -1, 64)
	}
	return p
}
