// Package audit owns the record of who changed what. Each row is written in the transaction of the change, so every
// change has a row. A sealer links the committed rows into a hash chain and signs the head of the chain; the sealer is
// at most a few seconds behind. Verify then reports every row that was edited, deleted, moved or inserted. Signed heads
// are also stored outside the database, because the database alone cannot show whether the end of the log was cut off.
//
// The server's database role may insert and read rows, but not edit or delete them.
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// MaxState is the maximum size in bytes of a stored Before or After state. A larger state is replaced by its length and
// its digest.
const MaxState = 64 << 10

// Actor identifies who made a change. A background job stores the Actor and passes it to Record later.
type Actor struct {
	Kind       string `json:"kind"`
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	SessionID  string `json:"session_id,omitempty"`
	ClientAddr string `json:"client_addr,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
}

// Entry is one change.
type Entry struct {
	Action               string // "job.cancel"
	TargetKind, TargetID string
	// Before and After are the states of the target before and after the change, or nil. They are stored as JSON; a
	// secret.String is encoded redacted.
	Before, After any
	// Actor defaults to the caller in the context.
	Actor *Actor
}

// Row is a stored entry.
type Row struct {
	ID     string
	Seq    int64
	At     time.Time
	Actor  Actor
	Action string

	TargetKind, TargetID string
	Before, After        json.RawMessage // the exact stored text, or nil
}

// IDs generates identifiers; *id.Source implements it.
type IDs interface{ New(p id.Prefix) string }

// Log writes the audit log of one service.
type Log struct {
	clock   clock.Clock
	ids     IDs
	service string
}

// NewLog returns a Log. It records changes that are made without a caller as made by the given service.
func NewLog(clk clock.Clock, ids IDs, service string) *Log {
	return &Log{clock: clk, ids: ids, service: service}
}

// Actor returns the actor that Record stores for a change made under ctx.
func (l *Log) Actor(ctx context.Context) Actor {
	c, ok := authn.FromContext(ctx)
	if !ok {
		return Actor{Kind: string(authn.KindService), ID: l.service, RequestID: obs.RequestID(ctx)}
	}
	return Actor{
		Kind: string(c.Kind), ID: c.Subject, Name: c.Username, SessionID: c.SessionID,
		ClientAddr: c.ClientAddr, RequestID: obs.RequestID(ctx),
	}
}

const insert = `
WITH written AS (
	INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, session_id, client_addr, action, target_kind, target_id, before, after, request_id)
	VALUES (@id, @at, @actor_kind, @actor_id, @actor_name, @session_id, @client_addr, @action, @target_kind, @target_id, @before, @after,
		@request_id) RETURNING seq, id)
INSERT INTO audit_pending (seq, audit_id) SELECT seq, id FROM written`

// Record inserts the entry in tx, which must be the transaction of the change.
func (l *Log) Record(ctx context.Context, tx pgx.Tx, e Entry) error {
	before, err := state(e.Before)
	if err != nil {
		return err
	}
	after, err := state(e.After)
	if err != nil {
		return err
	}
	actor := l.Actor(ctx)
	if e.Actor != nil {
		actor = *e.Actor
	}
	rowID, at := l.ids.New(id.Audit), l.clock.Now()
	if made := id.Time(rowID); at.Sub(made).Abs() < time.Second {
		at = made // so that the id is a position in lists
	}
	_, err = tx.Exec(ctx, insert, pgx.StrictNamedArgs{
		"id": rowID, "at": at, "actor_kind": actor.Kind, "actor_id": actor.ID, "actor_name": actor.Name,
		"session_id": actor.SessionID, "client_addr": actor.ClientAddr, "action": e.Action, "target_kind": e.TargetKind,
		"target_id": e.TargetID, "before": before, "after": after, "request_id": actor.RequestID,
	})
	if err != nil {
		return fmt.Errorf("record %s of %s %s: %w", e.Action, e.TargetKind, e.TargetID, err)
	}
	return nil
}

// state returns the JSON that is stored for v, a Before or After state.
func state(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the audited state: %w", err)
	}
	raw := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if len(raw) <= MaxState {
		return raw, nil
	}
	return digest(raw), nil
}

// digest returns what is stored instead of a state that is too large: its length and its SHA-256.
func digest(raw []byte) json.RawMessage {
	sum := sha256.Sum256(raw)
	return fmt.Appendf(nil, `{"bytes":%d,"sha256":"%s","truncated":true}`, len(raw), hex.EncodeToString(sum[:]))
}
