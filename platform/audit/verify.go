package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Trust holds what a verification relies on besides the database.
type Trust struct {
	Service string
	Keys    map[string]ed25519.PublicKey // by key id, including retired keys
	// Outside are the heads stored outside the database. Without them a truncated log cannot be detected.
	Outside []Checkpoint
	// Due is a time: rows written before it must be sealed, and heads signed before it must be stored outside.
	// Otherwise the sealer is not running, or stored heads were removed. Zero disables both checks.
	Due time.Time
}

// Report is the result of a verification.
type Report struct {
	Service string
	Sealed  int64   // rows in the chain
	Pending int64   // rows not sealed yet
	Heads   int     // signed heads checked
	Breaks  []Break // empty if the log is intact
	// More counts the breaks beyond MaxBreaks.
	More int
}

// MaxBreaks is the maximum number of breaks listed in a report.
const MaxBreaks = 100

// Broken returns the first break, or nil if the log is intact.
func (r Report) Broken() *Break {
	if len(r.Breaks) == 0 {
		return nil
	}
	return &r.Breaks[0]
}

// Break describes one sign that the log was tampered with or is not being sealed.
type Break struct {
	// Position is the first affected position in the chain, and Through is the last. They differ only if several rows
	// are affected or if the exact row is unknown. Both are 0 for a row that is not in the chain.
	Position, Through int64
	AuditID           string // the affected row, if known
	Reason            string
}

// String returns the position and the reason.
func (b Break) String() string {
	place := "unsealed row"
	switch {
	case b.Position > 0 && b.Through > b.Position:
		place = fmt.Sprintf("rows %d to %d", b.Position, b.Through)
	case b.Position > 0:
		place = fmt.Sprintf("row %d", b.Position)
	}
	if b.AuditID != "" {
		place += " (" + b.AuditID + ")"
	}
	return place + ": " + b.Reason
}

// Verify checks the schema's whole log in one snapshot.
func Verify(ctx context.Context, db pg.Beginner, trust Trust) (Report, error) {
	var report Report
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTxWith(ctx, db, opts, func(ctx context.Context, tx pgx.Tx) (err error) {
		report, err = VerifyTx(ctx, tx, trust)
		return err
	})
	return report, err
}

// VerifyTx checks the log as tx sees it. It continues after a break, so that the report covers the whole log.
func VerifyTx(ctx context.Context, tx pgx.Tx, trust Trust) (Report, error) {
	heads, err := ownHeads(ctx, tx, trust.Service)
	if err != nil {
		return Report{}, err
	}
	v := &verifier{trust: trust, heads: allHeads(heads, trust), follows: [][]byte{genesis()}, report: Report{Service: trust.Service}}
	v.kept(heads)
	if err := v.chain(ctx, tx); err != nil {
		return Report{}, err
	}
	v.tail()
	if err := v.loose(ctx, tx); err != nil {
		return Report{}, err
	}
	return v.report, nil
}

// ownHeads returns the database's heads in chain order.
func ownHeads(ctx context.Context, q pg.Querier, service string) ([]Checkpoint, error) {
	rows, err := q.Query(ctx, `SELECT position, previous, hash, at, key_id, signature FROM audit_checkpoint ORDER BY position`)
	if err != nil {
		return nil, fmt.Errorf("read the heads: %w", err)
	}
	heads, err := pgx.CollectRows(rows, scanHead(service))
	if err != nil {
		return nil, fmt.Errorf("read the heads: %w", err)
	}
	return heads, nil
}

// allHeads returns the heads of the database and those stored outside, in chain order.
func allHeads(own []Checkpoint, trust Trust) []Checkpoint {
	heads := slices.Clone(own)
	for _, c := range trust.Outside {
		if c.Service == trust.Service {
			heads = append(heads, c)
		}
	}
	slices.SortStableFunc(heads, func(a, b Checkpoint) int { return cmp.Compare(a.Position, b.Position) })
	return heads
}

// verifier walks the chain from its first row.
type verifier struct {
	trust    Trust
	heads    []Checkpoint // heads not reached yet
	position int64        // position of the last link visited
	// follows holds the hashes that the next link may build on. After a break these are the stored hash and the
	// expected one, so that only the affected row is reported. It is empty if the previous link is missing.
	follows [][]byte
	signed  int64 // highest position covered by a signed head
	report  Report
}

func (v *verifier) fail(b Break) {
	if len(v.report.Breaks) == MaxBreaks {
		v.report.More++
		return
	}
	b.Through = max(b.Through, b.Position)
	v.report.Breaks = append(v.report.Breaks, b)
}

// seal is a stored link of the chain.
type seal struct {
	position int64
	auditID  string
	hash     []byte
	row      *Row // nil if the row was deleted
}

func (v *verifier) chain(ctx context.Context, q pg.Querier) error {
	for {
		seals, err := nextSeals(ctx, q, v.position)
		if err != nil {
			return err
		}
		for _, s := range seals {
			v.step(s)
			v.checkHeads(s)
		}
		if len(seals) < batch {
			return nil
		}
	}
}

// step checks one link.
func (v *verifier) step(s seal) {
	if want := v.position + 1; s.position != want {
		v.fail(Break{Position: want, Through: s.position - 1, Reason: "the seal of this row was deleted"})
		v.follows = nil
	}
	expected, fits := v.expected(s)
	switch {
	case s.row == nil:
		v.fail(Break{Position: s.position, AuditID: s.auditID, Reason: "the row was deleted"})
	case !fits:
		v.fail(Break{Position: s.position, AuditID: s.auditID, Reason: "the row or its seal was edited or moved"})
	}
	v.position, v.follows = s.position, [][]byte{s.hash}
	if !fits {
		v.follows = append(v.follows, expected...)
	}
	v.report.Sealed++
}

// expected returns the hashes that the link would have if it were intact. The result fits is true if the stored hash of
// the link is one of them, or if the previous link is missing: then only a signed head can decide.
func (v *verifier) expected(s seal) (all [][]byte, fits bool) {
	for _, previous := range v.follows {
		hash := link(v.trust.Service, s.position, previous, s.auditID, s.row)
		if bytes.Equal(hash, s.hash) {
			return nil, true
		}
		all = append(all, hash)
	}
	return all, len(v.follows) == 0
}

// checkHeads compares a link with the signed heads up to its position.
func (v *verifier) checkHeads(s seal) {
	for len(v.heads) > 0 && v.heads[0].Position <= s.position {
		head := v.heads[0]
		v.heads = v.heads[1:]
		v.report.Heads++
		switch {
		case !head.Valid(v.trust.Keys):
			v.fail(Break{Position: head.Position, Reason: "the signature of the head is invalid: the key is unknown or the head was edited"})
		case head.Position < s.position: // the seal of its row is missing; step has reported it
		case !bytes.Equal(head.Hash, s.hash):
			v.fail(Break{Position: v.signed + 1, Through: s.position, Reason: "rows and seals were rewritten: the signed head differs"})
		case head.Position != v.signed && head.Previous != v.signed:
			v.fail(Break{Position: head.Previous, Reason: "the signed head of this row was deleted"})
		}
		v.signed = max(v.signed, head.Position)
	}
}

// tail checks the heads after the last link, and the rows after the last head.
func (v *verifier) tail() {
	last := v.position
	for _, head := range v.heads {
		v.report.Heads++
		switch {
		case !head.Valid(v.trust.Keys):
			v.fail(Break{Position: head.Position, Reason: "the signature of the head is invalid: the key is unknown or the head was edited"})
		case head.Position > last:
			v.fail(Break{Position: last + 1, Through: head.Position, Reason: "the end of the log was cut off"})
			last = head.Position
		}
	}
	if v.signed < v.position {
		v.fail(Break{Position: v.signed + 1, Through: v.position, Reason: "no signed head covers these rows"})
	}
}

// kept checks that the heads stored outside cover the range from the database's first head to its last head signed
// before Due. A truncated log could not be detected without them.
func (v *verifier) kept(own []Checkpoint) {
	var first, last int64
	for _, c := range v.trust.Outside {
		if c.Service == v.trust.Service {
			first, last = cmp.Or(min(first, c.Position), c.Position), max(last, c.Position)
		}
	}
	own = slices.DeleteFunc(slices.Clone(own), func(c Checkpoint) bool { return !c.At.Before(v.trust.Due) })
	if len(own) == 0 {
		return
	}
	oldest, newest := own[0].Position, own[len(own)-1].Position
	const reason = "the signed heads up to this row are not stored outside the database"
	switch {
	case last < newest:
		v.fail(Break{Position: last + 1, Through: newest, Reason: reason})
	case first > oldest:
		v.fail(Break{Position: own[0].Previous + 1, Through: first - 1, Reason: reason})
	}
}

// loose reports rows that are not in the chain: they were inserted without the sealer, deleted before they were
// sealed, or not sealed in time.
func (v *verifier) loose(ctx context.Context, q pg.Querier) error {
	if err := q.QueryRow(ctx, `SELECT count(*) FROM audit_pending`).Scan(&v.report.Pending); err != nil {
		return fmt.Errorf("count the pending rows: %w", err)
	}
	for _, look := range []struct {
		sql, reason string
		args        []any
	}{
		{
			sql:    `SELECT p.audit_id FROM audit_pending p LEFT JOIN audit a ON a.id = p.audit_id WHERE a.id IS NULL ORDER BY p.seq LIMIT 100`,
			reason: "the row was deleted before it was sealed",
		},
		{
			sql:    `SELECT p.audit_id FROM audit_pending p JOIN audit a ON a.id = p.audit_id WHERE a.at < $1 ORDER BY p.seq LIMIT 100`,
			reason: "the row was not sealed in time",
			args:   []any{v.trust.Due},
		},
		{
			sql: `SELECT a.id FROM audit a WHERE NOT EXISTS (SELECT 1 FROM audit_seal s WHERE s.audit_id = a.id)
			AND NOT EXISTS (SELECT 1 FROM audit_pending p WHERE p.audit_id = a.id) ORDER BY a.seq LIMIT 100`,
			reason: "the row is not in the chain",
		},
	} {
		found, err := q.Query(ctx, look.sql, look.args...)
		if err != nil {
			return fmt.Errorf("look for rows outside the chain: %w", err)
		}
		var auditID string
		_, err = pgx.ForEachRow(found, []any{&auditID}, func() error {
			v.fail(Break{AuditID: auditID, Reason: look.reason})
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for rows outside the chain: %w", err)
		}
	}
	return nil
}

func nextSeals(ctx context.Context, q pg.Querier, after int64) ([]seal, error) {
	rows, err := q.Query(ctx, `SELECT s.position, s.audit_id, s.hash, a.id IS NOT NULL FROM audit_seal s LEFT JOIN audit a ON a.id = s.audit_id
		WHERE s.position > $1 ORDER BY s.position LIMIT $2`, after, batch)
	if err != nil {
		return nil, fmt.Errorf("read the chain: %w", err)
	}
	seals, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s seal, err error) {
		var there bool
		if err = r.Scan(&s.position, &s.auditID, &s.hash, &there); there {
			s.row = &Row{}
		}
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chain: %w", err)
	}
	byID := make(map[string]*Row, len(seals))
	ids := make([]string, 0, len(seals))
	for _, s := range seals {
		byID[s.auditID] = s.row
		ids = append(ids, s.auditID)
	}
	return seals, fill(ctx, q, ids, byID)
}
