package modelcard

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes cards.
type Store struct{}

// maxRevisions is the maximum number of revisions of one card.
const maxRevisions = 1000

const columns = `model_id, version, revision, content, front_matter, body_at, digest, author, created_at`

// Get returns a revision of a card. Revision 0 means the newest one.
func (Store) Get(ctx context.Context, q pg.Querier, modelID string, version, revision int32) (*Card, error) {
	c, err := pg.One[Card](q.Query(ctx, `SELECT `+columns+` FROM model_card WHERE model_id = $1 AND version = $2 AND ($3 = 0 OR revision = $3)
		ORDER BY revision DESC LIMIT 1`, modelID, version, revision))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(Kind, strconv.Itoa(int(version)))
	}
	if err != nil {
		return nil, fmt.Errorf("load a model card: %w", err)
	}
	return c, nil
}

// Put stores a card as the next revision of the version's card. If the text equals that of the newest revision, Put
// returns that revision and sets fresh to false. If the request has an If-Match header, the header must state the
// newest revision, or 0 if the version has no card.
func (s Store) Put(ctx context.Context, tx pgx.Tx, c *Card) (kept *Card, fresh bool, err error) {
	var digest *string
	err = tx.QueryRow(ctx, `SELECT card_revision, card_digest FROM model_version WHERE model_id = $1 AND version = $2 FOR UPDATE`,
		c.ModelID, c.Version).Scan(&c.Revision, &digest)
	if err != nil {
		return nil, false, fmt.Errorf("read the revision of a model card: %w", err)
	}
	if err := request.CheckIfMatch(ctx, int64(c.Revision)); err != nil {
		return nil, false, err
	}
	if digest != nil && *digest == c.Digest {
		kept, err = s.Get(ctx, tx, c.ModelID, c.Version, c.Revision)
		return kept, false, err
	}
	if c.Revision == maxRevisions {
		return nil, false, fault.New(fault.Conflict, "card_revisions", "a model card can have at most %d revisions", maxRevisions)
	}
	c.Revision++
	_, err = tx.Exec(ctx, `INSERT INTO model_card (`+columns+`)
		VALUES (@model_id, @version, @revision, @content, @front_matter, @body_at, @digest, @author, @created_at)`, pgx.StrictNamedArgs{
		"model_id": c.ModelID, "version": c.Version, "revision": c.Revision, "content": c.Content, "front_matter": []byte(c.Front),
		"body_at": c.BodyAt, "digest": c.Digest, "author": c.Author, "created_at": c.CreatedAt,
	})
	if err != nil {
		return nil, false, fmt.Errorf("insert a model card: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE model_version SET card_revision = $3, card_digest = $4 WHERE model_id = $1 AND version = $2`,
		c.ModelID, c.Version, c.Revision, c.Digest)
	if err != nil {
		return nil, false, fmt.Errorf("update the revision of a model card: %w", err)
	}
	return c, true, nil
}
