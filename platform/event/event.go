// Package event stores the history of each object (subject) of a service. Each change of state is one row, which is
// written in the transaction of the change and never edited. Rows are deleted when they reach a configured age. The
// rows of one subject are returned in the order in which they were written.
package event

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Event is one change of one subject.
type Event struct {
	ID  string    // set by Append
	Seq int64     // set by Append; increases from event to event of a subject
	At  time.Time // set by Append

	SubjectKind, SubjectID string // "job", "job_01..."
	Type                   string // "state", "preempted", ...
	// ActorKind and ActorID default to the caller in the context, or to the service if the context has no caller.
	ActorKind, ActorID string
	// From and To are the old and the new state, if the state changed.
	From    string `db:"from_state"`
	To      string `db:"to_state"`
	Reason  string // machine-readable
	Message string // human-readable
	Data    json.RawMessage
}

// IDs generates identifiers; *id.Source implements it.
type IDs interface{ New(p id.Prefix) string }

// Log writes the events of one service.
type Log struct {
	clock   clock.Clock
	ids     IDs
	service string
}

// NewLog returns a Log. It records changes that are made without a caller as made by the given service.
func NewLog(clk clock.Clock, ids IDs, service string) *Log {
	return &Log{clock: clk, ids: ids, service: service}
}

const columns = `id, seq, at, subject_kind, subject_id, type, actor_kind, actor_id, from_state, to_state, reason, message, data`

const insert = `
INSERT INTO event (id, at, subject_kind, subject_id, type, actor_kind, actor_id, from_state, to_state, reason, message, data)
VALUES (@id, @at, @subject_kind, @subject_id, @type, @actor_kind, @actor_id, @from_state, @to_state, @reason, @message, @data) RETURNING seq`

// Append inserts the event in tx, which must be the transaction of the change, and returns the stored event.
func (l *Log) Append(ctx context.Context, tx pgx.Tx, e Event) (Event, error) {
	e.ID, e.At = l.ids.New(id.Event), l.clock.Now()
	if e.ActorKind == "" {
		e.ActorKind, e.ActorID = l.actor(ctx)
	}
	err := tx.QueryRow(ctx, insert, pgx.StrictNamedArgs{
		"id": e.ID, "at": e.At, "subject_kind": e.SubjectKind, "subject_id": e.SubjectID, "type": e.Type, "actor_kind": e.ActorKind,
		"actor_id": e.ActorID, "from_state": e.From, "to_state": e.To, "reason": e.Reason, "message": e.Message, "data": e.Data,
	}).Scan(&e.Seq)
	if err != nil {
		return Event{}, fmt.Errorf("append the event %s of %s %s: %w", e.Type, e.SubjectKind, e.SubjectID, err)
	}
	return e, nil
}

func (l *Log) actor(ctx context.Context) (kind, subject string) {
	c, ok := authn.FromContext(ctx)
	if !ok {
		return string(authn.KindService), l.service
	}
	return string(c.Kind), c.Subject
}

// List returns the events of a subject, oldest first.
func List(ctx context.Context, q pg.Querier, kind, subject string, p request.Page) ([]Event, error) {
	return ListAfter(ctx, q, kind, subject, 0, p)
}

// ListAfter returns a page of the events of a subject whose Seq is greater than the given one, oldest first.
func ListAfter(ctx context.Context, q pg.Querier, kind, subject string, after int64, p request.Page) ([]Event, error) {
	return collect(ctx, q, `SELECT `+columns+` FROM event WHERE subject_kind = $1 AND subject_id = $2 AND seq > $5
		ORDER BY seq LIMIT $3 OFFSET $4`, kind, subject, p.Limit, p.Offset, after)
}

// After returns the events of a subject whose Seq is greater than the given one, oldest first, up to the given limit or
// request.MaxLimit, whichever is less. Streams use After to resume.
func After(ctx context.Context, q pg.Querier, kind, subject string, seq int64, limit int) ([]Event, error) {
	return collect(ctx, q, `SELECT `+columns+` FROM event WHERE subject_kind = $1 AND subject_id = $2 AND seq > $3
		ORDER BY seq LIMIT $4`, kind, subject, seq, min(limit, request.MaxLimit))
}

func collect(ctx context.Context, q pg.Querier, sql string, args ...any) ([]Event, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByName[Event])
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return events, nil
}

// DeleteBefore deletes events from before the given time, oldest first, up to the given limit, and returns how many it
// deleted. Concurrent calls delete different events.
func DeleteBefore(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM event WHERE id IN (
		SELECT id FROM event WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old events: %w", err)
	}
	return tag.RowsAffected(), nil
}
