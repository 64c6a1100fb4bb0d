package epoch

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// MaxChanges is the maximum number of changed rows that ChangesBetween returns. The limit bounds memory use; beyond it,
// sending the complete state again is cheaper than sending the changes.
const MaxChanges = 10_000

// keepEpochs is the number of epochs whose changes are kept, counted back from the latest epoch.
const keepEpochs = 2 * MaxChanges

// Changes are the rows that changed in one or more epochs.
type Changes struct {
	Deployments []string // ids of deployments that are new, changed or deleted
	Tokens      []string // ids of tokens that are new or revoked
}

// ChangedDeployments returns the Changes of an epoch that changes deployments.
func ChangedDeployments(ids ...string) Changes { return Changes{Deployments: ids} }

// ChangedTokens returns the Changes of an epoch that changes tokens.
func ChangedTokens(ids ...string) Changes { return Changes{Tokens: ids} }

// store inserts the rows of an epoch. An epoch without changes gets an empty row, so that it differs from an epoch
// whose changes are unknown.
func (c Changes) store(ctx context.Context, tx pgx.Tx, epoch int64) error {
	deployments := c.Deployments
	if len(c.Deployments)+len(c.Tokens) == 0 {
		deployments = []string{""}
	}
	_, err := tx.Exec(ctx, `INSERT INTO snapshot_change (epoch, deployment_id, token_id)
		SELECT $1::bigint, id, '' FROM unnest($2::text[]) AS id UNION SELECT $1::bigint, '', id FROM unnest($3::text[]) AS id`,
		epoch, deployments, c.Tokens)
	if err != nil {
		return wrap("store the changes of an epoch", err)
	}
	return nil
}

// ChangesBetween returns the rows that changed in the epochs after the epoch from, up to and including the epoch to.
// Each row occurs once. The result known is false if there are more than MaxChanges changes or if the changes of an
// epoch are not stored.
func ChangesBetween(ctx context.Context, q pg.Querier, from, to int64) (c Changes, known bool, err error) {
	rows, err := q.Query(ctx, `SELECT epoch, deployment_id, token_id FROM snapshot_change WHERE epoch > $1 AND epoch <= $2
		ORDER BY epoch LIMIT $3`, from, to, MaxChanges+1)
	if err != nil {
		return Changes{}, false, wrap("read the changes of epochs", err)
	}
	var at, last, epochs int64
	var deployment, token string
	n, seen := 0, map[string]bool{"": true}
	_, err = pgx.ForEachRow(rows, []any{&at, &deployment, &token}, func() error {
		n++
		if at != last {
			last, epochs = at, epochs+1
		}
		if !seen[deployment] {
			c.Deployments = append(c.Deployments, deployment)
		}
		if !seen[token] {
			c.Tokens = append(c.Tokens, token)
		}
		seen[deployment], seen[token] = true, true
		return nil
	})
	if err != nil {
		return Changes{}, false, wrap("read the changes of epochs", err)
	}
	return c, n <= MaxChanges && epochs == to-from, nil
}

func (l *Ledger) sweepChanges(ctx context.Context) error {
	_, err := l.Pool.Exec(ctx, `DELETE FROM snapshot_change WHERE epoch <= (SELECT epoch FROM snapshot_epoch) - $1::bigint`, int64(keepEpochs))
	if err != nil {
		return wrap("delete the changes of old epochs", err)
	}
	return nil
}
