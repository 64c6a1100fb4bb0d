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

// hasher returns the stored form of a password.
type hasher interface {
	Hash(ctx context.Context, password secret.String) (string, error)
}

// Bootstrap creates what an empty installation needs: the project `default` and the first admin.
type Bootstrap struct {
	Pool   *pgxpool.Pool
	Hasher hasher
	Audit  *audit.Log
	Clock  clock.Clock
	IDs    *id.Source
	Rand   io.Reader
	// Password is that of the first admin; if it is empty, a random one is generated.
	Password secret.String
}

// FirstLogin is the one-time login of a new installation.
type FirstLogin struct {
	Username string
	Password secret.String
	// Given reports that the password came from the settings and need not be shown.
	Given bool
}

// Run returns the first login if this call created it, and nil otherwise. Of concurrent starts only one creates it.
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
