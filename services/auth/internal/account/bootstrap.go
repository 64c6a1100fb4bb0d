package account

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// FirstUsername is the name of the account that the first start creates.
const FirstUsername = "admin"

// hasher hashes a password for storage.
type hasher interface {
	Hash(ctx context.Context, password secret.String) (string, error)
}

// Bootstrap creates the project `default` and the first admin in an empty installation.
type Bootstrap struct {
	Pool   *pgxpool.Pool
	Hasher hasher
	Audit  *audit.Log
	Clock  clock.Clock
	IDs    *id.Source
	Rand   io.Reader
	// Password is the password of the first admin. If it is empty, a random one is generated.
	Password secret.String
}

// FirstLogin is the username and the password of the first admin.
type FirstLogin struct {
	Username string
	Password secret.String
	// Given is true if the password came from the settings, so that it need not be shown.
	Given bool
}

// Run creates the first admin and the project if no account exists. It returns nil if it created nothing. Of
// concurrent calls, only one creates them.
func (b *Bootstrap) Run(ctx context.Context) (*FirstLogin, error) {
	first := &FirstLogin{Username: FirstUsername, Password: b.Password, Given: !b.Password.IsZero()}
	if !first.Given {
		var err error
		if first.Password, err = draw(b.Rand); err != nil {
			return nil, err
		}
	}
	made := false
	err := pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		made, err = b.make(ctx, tx, first)
		return err
	})
	if err != nil || !made {
		return nil, err
	}
	return first, nil
}

func (b *Bootstrap) make(ctx context.Context, tx pgx.Tx, first *FirstLogin) (bool, error) {
	if err := lockFirstStart(ctx, tx); err != nil {
		return false, err
	}
	if exists, err := anyAccount(ctx, tx); err != nil || exists {
		return false, err
	}
	hash, err := b.Hasher.Hash(ctx, first.Password)
	if err != nil {
		return false, fmt.Errorf("hash the first password: %w", err)
	}
	accountID := b.IDs.New(id.User)
	if err := insertFirst(ctx, tx, accountID, b.IDs.New(id.Project), first.Username, hash, !first.Given, b.Clock.Now()); err != nil {
		return false, err
	}
	return true, b.Audit.Record(ctx, tx, audit.Entry{Action: "account.bootstrap", TargetKind: "account", TargetID: accountID})
}
