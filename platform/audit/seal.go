package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// The sealer runs every 2 to 3 s. Each run seals batches of rows until none is pending.
const (
	every  = 2 * time.Second
	jitter = time.Second
	batch  = 500
)

// HeadStore stores signed heads where the administrators of the database cannot change them.
type HeadStore interface {
	Put(ctx context.Context, heads ...Checkpoint) error
	// Last returns the highest position of a stored head, or 0 if no head is stored.
	Last(ctx context.Context) (int64, error)
}

// SealerConfig configures a Sealer.
type SealerConfig struct {
	Service string // the service whose schema Pool uses
	Pool    *pgxpool.Pool
	Clock   clock.Clock
	Log     *slog.Logger
	Key     ed25519.PrivateKey
	KeyID   string
	Heads   HeadStore
}

// Sealer adds the committed rows of one schema to its hash chain and signs the head. Each replica may run a Sealer; a
// lock ensures that only one of them works at a time.
type Sealer struct {
	cfg  SealerConfig
	kept int64 // position of the newest head passed to Heads; negative until Heads.Last was read
}

// NewSealer returns a Sealer. It fails if the config is incomplete.
func NewSealer(cfg SealerConfig) (*Sealer, error) {
	if len(cfg.Key) != ed25519.PrivateKeySize || cfg.KeyID == "" || cfg.Service == "" || cfg.Heads == nil {
		return nil, errors.New("audit: SealerConfig must have Service, an Ed25519 Key, KeyID and Heads")
	}
	return &Sealer{cfg: cfg, kept: -1}, nil
}

// Run seals until ctx is done. A failed run is logged and retried; the rows that it has not sealed stay pending.
func (s *Sealer) Run(ctx context.Context) error {
	return process.Loop(ctx, s.cfg.Clock, every, jitter, process.Logged(s.cfg.Log, "audit_sealer", func(ctx context.Context) error {
		for {
			n, err := s.RunOnce(ctx)
			if err != nil || n < batch {
				return err
			}
		}
	}))
}

// RunOnce seals one batch of committed rows and returns the number of rows processed. It does nothing and returns 0
// while another sealer is at work.
func (s *Sealer) RunOnce(ctx context.Context) (int, error) {
	var sealed int
	if err := s.resume(ctx); err != nil {
		return 0, err
	}
	err := pg.InTx(ctx, s.cfg.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		sealed = 0
		mine, err := lockSealing(ctx, tx)
		if err != nil || !mine {
			return err
		}
		sealed, err = s.seal(ctx, tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("seal the audit log of %s: %w", s.cfg.Service, err)
	}
	// Store the head outside the database only after the commit: an external head that the database does not have would
	// look like a truncated log. After a crash in between, the next run stores the head.
	return sealed, s.keep(ctx)
}

// keep passes committed heads to Heads, including those signed by other replicas, so that every HeadStore stores all
// heads.
func (s *Sealer) keep(ctx context.Context) error {
	for {
		heads, err := checkpointsAfter(ctx, s.cfg.Pool, s.cfg.Service, s.kept)
		if err != nil || len(heads) == 0 {
			return err
		}
		if err := s.cfg.Heads.Put(ctx, heads...); err != nil {
			return fmt.Errorf("store the audit heads of %s: %w", s.cfg.Service, err)
		}
		s.kept = heads[len(heads)-1].Position
		if len(heads) < batch {
			return nil
		}
	}
}

// resume reads the position of the last stored head, once. The sealer does not read it again, so that heads that are
// removed later are not silently restored. If Heads has no heads, all heads are copied from the database. A warning is
// logged then, because a truncation before the copy cannot be detected.
func (s *Sealer) resume(ctx context.Context) error {
	if s.kept >= 0 {
		return nil
	}
	last, err := s.cfg.Heads.Last(ctx)
	if err != nil {
		return fmt.Errorf("read the position of the last stored audit head of %s: %w", s.cfg.Service, err)
	}
	if last == 0 {
		heads, err := checkpointsAfter(ctx, s.cfg.Pool, s.cfg.Service, 0)
		if err != nil {
			return err
		}
		if len(heads) > 0 {
			s.cfg.Log.WarnContext(ctx, "no audit heads are stored outside the database; copying them from the database",
				"first_signed_at", heads[0].At)
		}
	}
	s.kept = last
	return nil
}

// lockSealing tries to take the sealer's lock until the end of the transaction. It returns true if it got the lock.
func lockSealing(ctx context.Context, tx pgx.Tx) (mine bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox audit ' || current_schema(), 0))`).Scan(&mine)
	if err != nil {
		return false, fmt.Errorf("take the sealer's lock: %w", err)
	}
	return mine, nil
}

// pending is a row that is waiting to be sealed.
type pending struct {
	seq     int64
	auditID string
	row     *Row // nil if the row was deleted
	// sealed is true if the row already has a seal, which only a forged pending entry can cause. Such an entry is
	// skipped, because a second seal would fail and block all entries after it.
	sealed bool
}

func (s *Sealer) seal(ctx context.Context, tx pgx.Tx) (int, error) {
	waiting, err := takePending(ctx, tx)
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	position, hash, err := lastSeal(ctx, tx)
	if err != nil {
		return 0, err
	}
	previous := position
	todo := &pgx.Batch{}
	for _, p := range waiting {
		todo.Queue(`DELETE FROM audit_pending WHERE seq = $1`, p.seq)
		if p.sealed {
			continue
		}
		position++
		hash = link(s.cfg.Service, position, hash, p.auditID, p.row)
		todo.Queue(`INSERT INTO audit_seal (position, audit_id, hash) VALUES ($1, $2, $3)`, position, p.auditID, hash)
	}
	if position > previous {
		s.head(todo, previous, position, hash)
	}
	if err := tx.SendBatch(ctx, todo).Close(); err != nil {
		return 0, fmt.Errorf("write the seals: %w", err)
	}
	return len(waiting), nil
}

// head adds the INSERT of a checkpoint to the batch. The checkpoint is the signed hash of the entry at the given
// position.
func (s *Sealer) head(todo *pgx.Batch, previous, position int64, hash []byte) {
	c := Checkpoint{Service: s.cfg.Service, Position: position, Previous: previous, Hash: hash, At: s.cfg.Clock.Now(), KeyID: s.cfg.KeyID}
	c.Signature = ed25519.Sign(s.cfg.Key, c.signed())
	todo.Queue(`INSERT INTO audit_checkpoint (position, previous, hash, at, key_id, signature) VALUES ($1, $2, $3, $4, $5, $6)`,
		c.Position, c.Previous, c.Hash, c.At, c.KeyID, c.Signature)
}

func takePending(ctx context.Context, tx pgx.Tx) ([]pending, error) {
	rows, err := tx.Query(ctx, `SELECT p.seq, p.audit_id, EXISTS (SELECT FROM audit_seal s WHERE s.audit_id = p.audit_id), a.id IS NOT NULL
		FROM audit_pending p LEFT JOIN audit a ON a.id = p.audit_id ORDER BY p.seq LIMIT $1`, batch)
	if err != nil {
		return nil, fmt.Errorf("read the pending rows: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p pending, err error) {
		var there bool
		if err = r.Scan(&p.seq, &p.auditID, &p.sealed, &there); there {
			p.row = &Row{}
		}
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the pending rows: %w", err)
	}
	byID := make(map[string]*Row, len(waiting))
	ids := make([]string, 0, len(waiting))
	for _, p := range waiting {
		byID[p.auditID] = p.row
		ids = append(ids, p.auditID)
	}
	return waiting, fill(ctx, tx, ids, byID)
}

// fill reads the rows with these ids and stores each in the Row that the given map has for its id. It skips ids with a
// nil Row.
func fill(ctx context.Context, q pg.Querier, ids []string, into map[string]*Row) error {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM audit a WHERE a.id = ANY($1)`, ids)
	if err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	var r Row
	_, err = pgx.ForEachRow(rows, r.into(), func() error {
		if place := into[r.ID]; place != nil {
			*place = r
		}
		r.Before, r.After = nil, nil // so that the next scan does not overwrite these bytes
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	return nil
}

func lastSeal(ctx context.Context, q pg.Querier) (position int64, hash []byte, err error) {
	err = q.QueryRow(ctx, `SELECT position, hash FROM audit_seal ORDER BY position DESC LIMIT 1`).Scan(&position, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, genesis(), nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read the head of the chain: %w", err)
	}
	return position, hash, nil
}

// checkpointsAfter returns up to one batch of heads after a position. It skips heads without a matching seal: the
// server's role can insert such rows, but they are not heads of this chain and must not be stored outside.
func checkpointsAfter(ctx context.Context, q pg.Querier, service string, position int64) ([]Checkpoint, error) {
	rows, err := q.Query(ctx, `SELECT c.position, c.previous, c.hash, c.at, c.key_id, c.signature
		FROM audit_checkpoint c JOIN audit_seal s ON s.position = c.position AND s.hash = c.hash
		WHERE c.position > $1 ORDER BY c.position LIMIT $2`, position, batch)
	if err != nil {
		return nil, fmt.Errorf("read the audit heads to store outside the database: %w", err)
	}
	heads, err := pgx.CollectRows(rows, scanHead(service))
	if err != nil {
		return nil, fmt.Errorf("read the audit heads to store outside the database: %w", err)
	}
	return heads, nil
}

func scanHead(service string) pgx.RowToFunc[Checkpoint] {
	return func(r pgx.CollectableRow) (Checkpoint, error) {
		c := Checkpoint{Service: service}
		return c, r.Scan(&c.Position, &c.Previous, &c.Hash, &c.At, &c.KeyID, &c.Signature)
	}
}
