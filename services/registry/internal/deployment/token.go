package deployment

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/token"
)

// prefixLength is how much of a token is shown to recognise it by.
const prefixLength = 8

// Mint makes a token of a deployment in tx; only its hash is stored.
func (b *Book) Mint(ctx context.Context, tx pgx.Tx, ids *id.Source, random io.Reader, deploymentID, name string) (*token.Token, secret.String, error) {
	text, err := secret.Mint(random, secret.KindDeployment)
	if err != nil {
		return nil, secret.String{}, fmt.Errorf("mint a deployment token: %w", err)
	}
	t := &token.Token{
		ID: ids.New(id.TokenRow), DeploymentID: deploymentID, Name: name, Prefix: text.Reveal()[:prefixLength],
		Hash: secret.Hash(text.Reveal()), CreatedAt: b.Clock.Now(),
	}
	if err := b.Tokens.Insert(ctx, tx, t); err != nil {
		return nil, secret.String{}, err
	}
	err = b.record(ctx, tx, "deployment.token.create", deploymentID, event.Event{Type: "token_created", Message: name},
		map[string]any{"token_id": t.ID, "name": name})
	if err != nil {
		return nil, secret.String{}, err
	}
	_, err = epoch.Bump(ctx, tx)
	return t, text, err
}

// Revoke ends a token and answers the epoch from which on it is dead; a repeat answers the same one.
func (b *Book) Revoke(ctx context.Context, deploymentID, tokenID string) (from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		t, err := b.Tokens.Lock(ctx, tx, deploymentID, tokenID)
		if err != nil {
			return err
		}
		if t.RevokedEpoch != nil {
			from = *t.RevokedEpoch
			return nil
		}
		err = b.record(ctx, tx, "deployment.token.revoke", deploymentID, event.Event{Type: "token_revoked", Message: t.Name},
			map[string]any{"token_id": t.ID, "name": t.Name})
		if err != nil {
			return err
		}
		if from, err = epoch.Bump(ctx, tx); err != nil {
			return err
		}
		return b.Tokens.Revoke(ctx, tx, t.ID, b.Clock.Now(), from)
	})
	return from, err
}
