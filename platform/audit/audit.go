// Package audit owns the record of who changed what. A row is written in the
// transaction of the change, so there is no change without its row. A sealer
// chains the committed rows by hash and signs the head of the chain, at most some
// seconds behind; Verify then names each row that was edited, deleted, moved,
// put in or cut off. Signed heads are kept outside the database too, because a database
// alone cannot prove that its end was not cut.
//
// The server's role may add rows and read them; it can edit or delete none.
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

// MaxState is the most bytes of a Before or an After that are kept; of a larger
// one its length and its digest are.
const MaxState = 64 << 10

// Actor is who did it. Work that is put off keeps it and hands it in later.
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
	// Before and After are what changed, as JSON; secret.String prints redacted in
	// it. nil is nothing.
	Before, After any
	// Actor is the caller of the context unless set.
	Actor *Actor
}

// Row is an entry as it was written.
type Row struct {
	ID     string
	Seq    int64
	At     time.Time
	Actor  Actor
	Action string

	TargetKind, TargetID string
	Before, After        json.RawMessage // the exact text, or nil
}

// IDs makes identifiers: an *id.Source.
type IDs interface{ New(p id.Prefix) string }

// Log writes the audit of one service.
type Log struct {
	clock   clock.Clock
	ids     IDs
	service string
}

// NewLog makes a log; background work is recorded as done by service.
func NewLog(clk clock.Clock, ids IDs, service string) *Log {
	return &Log{clock: clk, ids: ids, service: service}
}

// Actor is who a change under ctx is recorded as.
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
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING seq, id)
INSERT INTO audit_pending (seq, audit_id) SELECT seq, id FROM written`

// Record writes the entry in tx, the transaction of the change.
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
	_, err = tx.Exec(ctx, insert, l.ids.New(id.Audit), l.clock.Now(), actor.Kind, actor.ID, actor.Name, actor.SessionID,
		actor.ClientAddr, e.Action, e.TargetKind, e.TargetID, before, after, actor.RequestID)
	if err != nil {
		return fmt.Errorf("record %s of %s %s: %w", e.Action, e.TargetKind, e.TargetID, err)
	}
	return nil
}

// state is the text that is kept of a Before or an After.
func state(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write the audited state: %w", err)
	}
	raw := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if len(raw) <= MaxState {
		return raw, nil
	}
	return digest(raw), nil
}

// digest stands for a state that is too long: what was cut can still be proven.
func digest(raw []byte) json.RawMessage {
	sum := sha256.Sum256(raw)
	return fmt.Appendf(nil, `{"bytes":%d,"sha256":"%s","truncated":true}`, len(raw), hex.EncodeToString(sum[:]))
}
