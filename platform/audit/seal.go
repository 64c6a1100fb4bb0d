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
	"github.com/signalbox-dev/signalbox/platform/run"
)

// How far behind the sealer may be: a round every 2 to 3 s, each a batch or more.
const (
	every  = 2 * time.Second
	jitter = time.Second
	batch  = 500
)

// Keeper takes signed heads to where the database's masters cannot follow.
type Keeper interface {
	Put(ctx context.Context, c Checkpoint) error
}

// SealerConfig is what a sealer works with.
type SealerConfig struct {
	Service string // whose schema the pool reaches
	Pool    *pgxpool.Pool
	Clock   clock.Clock
	Log     *slog.Logger
	Key     ed25519.PrivateKey
	KeyID   string
	Keep    Keeper
}

// Sealer chains the committed rows of one schema and signs the head. Any number
// of replicas may run one; a lock lets one at a time work.
type Sealer struct {
	cfg  SealerConfig
	kept int64 // the position of the newest head handed to Keep
}

// NewSealer makes a sealer.
func NewSealer(cfg SealerConfig) (*Sealer, error) {
	if len(cfg.Key) != ed25519.PrivateKeySize || cfg.KeyID == "" || cfg.Service == "" || cfg.Keep == nil {
		return nil, errors.New("audit: a sealer needs a service, an Ed25519 key with its id, and a place to keep heads")
	}
	return &Sealer{cfg: cfg}, nil
}

// Run seals until ctx is over. A round that fails is logged and tried again: the
// rows wait.
func (s *Sealer) Run(ctx context.Context) error {
	return run.Loop(ctx, s.cfg.Clock, every, jitter, run.Logged(s.cfg.Log, "audit_sealer", func(ctx context.Context) error {
		for {
			n, err := s.RunOnce(ctx)
			if err != nil || n < batch {
				return err
			}
		}
	}))
}

// RunOnce seals one batch of what is committed and says how many rows it sealed.
func (s *Sealer) RunOnce(ctx context.Context) (int, error) {
	var sealed int
	var head *Checkpoint
	err := pg.InTx(ctx, s.cfg.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		sealed, head = 0, nil
		mine, err := lockSealing(ctx, tx)
		if err != nil || !mine {
			return err
		}
		if sealed, err = s.seal(ctx, tx); err != nil {
			return err
		}
		head, err = newestCheckpoint(ctx, tx, s.cfg.Service)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("seal the audit of %s: %w", s.cfg.Service, err)
	}
	// After the commit: a head outside that the database does not have would look
	// like a cut. A crash in between is made good by the next round.
	if head != nil && head.Position > s.kept {
		if err := s.cfg.Keep.Put(ctx, *head); err != nil {
			return sealed, fmt.Errorf("keep the head of the audit of %s: %w", s.cfg.Service, err)
		}
		s.kept = head.Position
	}
	return sealed, nil
}

// lockSealing holds until the end of the transaction.
func lockSealing(ctx context.Context, tx pgx.Tx) (mine bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox audit ' || current_schema(), 0))`).Scan(&mine)
	if err != nil {
		return false, fmt.Errorf("take the sealer's lock: %w", err)
	}
	return mine, nil
}

// pending is a row that waits to be sealed; row is nil if it is gone already.
type pending struct {
	seq     int64
	auditID string
	row     *Row
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
		position++
		hash = link(s.cfg.Service, position, hash, p.auditID, p.row)
		todo.Queue(`INSERT INTO audit_seal (position, audit_id, hash) VALUES ($1, $2, $3)`, position, p.auditID, hash)
		todo.Queue(`DELETE FROM audit_pending WHERE seq = $1`, p.seq)
	}
	c := Checkpoint{Service: s.cfg.Service, Position: position, Previous: previous, Hash: hash, At: s.cfg.Clock.Now(), KeyID: s.cfg.KeyID}
	c.Signature = ed25519.Sign(s.cfg.Key, c.signed())
	todo.Queue(`INSERT INTO audit_checkpoint (position, previous, hash, at, key_id, signature) VALUES ($1, $2, $3, $4, $5, $6)`,
		c.Position, c.Previous, c.Hash, c.At, c.KeyID, c.Signature)
	if err := tx.SendBatch(ctx, todo).Close(); err != nil {
		return 0, fmt.Errorf("write the seals: %w", err)
	}
	return len(waiting), nil
}

func takePending(ctx context.Context, tx pgx.Tx) ([]pending, error) {
	rows, err := tx.Query(ctx, `SELECT p.seq, p.audit_id, a.id IS NOT NULL FROM audit_pending p LEFT JOIN audit a ON a.id = p.audit_id
		ORDER BY p.seq LIMIT $1`, batch)
	if err != nil {
		return nil, fmt.Errorf("look for rows to seal: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p pending, err error) {
		var there bool
		if err = r.Scan(&p.seq, &p.auditID, &there); there {
			p.row = &Row{}
		}
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for rows to seal: %w", err)
	}
	byID := make(map[string]*Row, len(waiting))
	ids := make([]string, 0, len(waiting))
	for _, p := range waiting {
		byID[p.auditID] = p.row
		ids = append(ids, p.auditID)
	}
	return waiting, fill(ctx, tx, ids, byID)
}

// fill reads the rows of these ids into the places that wait for them.
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
		r.Before, r.After = nil, nil // the next row must not write into these bytes
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

func newestCheckpoint(ctx context.Context, q pg.Querier, service string) (*Checkpoint, error) {
	c := Checkpoint{Service: service}
	err := q.QueryRow(ctx, `SELECT position, previous, hash, at, key_id, signature FROM audit_checkpoint ORDER BY position DESC LIMIT 1`).
		Scan(&c.Position, &c.Previous, &c.Hash, &c.At, &c.KeyID, &c.Signature)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the newest head: %w", err)
	}
	return &c, nil
}
