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
	Put(ctx context.Context, heads ...Checkpoint) error
	// Last is the highest position that it has a head of, 0 for none.
	Last(ctx context.Context) (int64, error)
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
	kept int64 // the position of the newest head handed to Keep, below 0 before Keep was asked
}

// NewSealer makes a sealer.
func NewSealer(cfg SealerConfig) (*Sealer, error) {
	if len(cfg.Key) != ed25519.PrivateKeySize || cfg.KeyID == "" || cfg.Service == "" || cfg.Keep == nil {
		return nil, errors.New("audit: a sealer needs a service, an Ed25519 key with its id, and a place to keep heads")
	}
	return &Sealer{cfg: cfg, kept: -1}, nil
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
		return 0, fmt.Errorf("seal the audit of %s: %w", s.cfg.Service, err)
	}
	// After the commit: a head outside that the database does not have would look
	// like a cut. A crash in between is made good by the next round.
	return sealed, s.keep(ctx)
}

// keep hands on what is committed, also by the sealers beside this one, so that each place that keeps heads has
// them from the first one on.
func (s *Sealer) keep(ctx context.Context) error {
	for {
		heads, err := checkpointsAfter(ctx, s.cfg.Pool, s.cfg.Service, s.kept)
		if err != nil || len(heads) == 0 {
			return err
		}
		if err := s.cfg.Keep.Put(ctx, heads...); err != nil {
			return fmt.Errorf("keep the heads of the audit of %s: %w", s.cfg.Service, err)
		}
		s.kept = heads[len(heads)-1].Position
		if len(heads) < batch {
			return nil
		}
	}
}

// resume asks once how far heads are kept. While this sealer lives it does not ask again: what is taken away
// meanwhile is not put back in silence. A place that has none takes the database's word for what was before,
// which is told: a log that was cut before that cannot be told from a whole one here.
func (s *Sealer) resume(ctx context.Context) error {
	if s.kept >= 0 {
		return nil
	}
	last, err := s.cfg.Keep.Last(ctx)
	if err != nil {
		return fmt.Errorf("look how far the heads of the audit of %s are kept: %w", s.cfg.Service, err)
	}
	if last == 0 {
		heads, err := checkpointsAfter(ctx, s.cfg.Pool, s.cfg.Service, 0)
		if err != nil {
			return err
		}
		if len(heads) > 0 {
			s.cfg.Log.WarnContext(ctx, "no heads of the audit were kept outside the database: they are taken from it",
				"first_signed_at", heads[0].At)
		}
	}
	s.kept = last
	return nil
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
	// sealed is true where a seal stands already. Only the server's role can have asked for a second one, which
	// would hold up all behind it.
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

// head signs the end of the chain.
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
		return nil, fmt.Errorf("look for rows to seal: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p pending, err error) {
		var there bool
		if err = r.Scan(&p.seq, &p.auditID, &p.sealed, &there); there {
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

// checkpointsAfter are the next heads after a position, a batch at most. One that no seal stands under is not a
// head of this chain: the server's role may write such rows, and they are not to be kept as if they were.
func checkpointsAfter(ctx context.Context, q pg.Querier, service string, position int64) ([]Checkpoint, error) {
	rows, err := q.Query(ctx, `SELECT c.position, c.previous, c.hash, c.at, c.key_id, c.signature
		FROM audit_checkpoint c JOIN audit_seal s ON s.position = c.position AND s.hash = c.hash
		WHERE c.position > $1 ORDER BY c.position LIMIT $2`, position, batch)
	if err != nil {
		return nil, fmt.Errorf("read the heads to keep: %w", err)
	}
	heads, err := pgx.CollectRows(rows, scanHead(service))
	if err != nil {
		return nil, fmt.Errorf("read the heads to keep: %w", err)
	}
	return heads, nil
}

func scanHead(service string) pgx.RowToFunc[Checkpoint] {
	return func(r pgx.CollectableRow) (Checkpoint, error) {
		c := Checkpoint{Service: service}
		return c, r.Scan(&c.Position, &c.Previous, &c.Hash, &c.At, &c.KeyID, &c.Signature)
	}
}
