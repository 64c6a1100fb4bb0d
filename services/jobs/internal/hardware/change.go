package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Inserter inserts River jobs in a transaction.
type Inserter interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Changes replaces the configuration.
type Changes struct {
	Pool  *pgxpool.Pool
	Store Store
	Hub   *pg.NotifyHub
	Clock clock.Clock
	Audit *audit.Log
	Queue Inserter
}

// Request is a replacement whose configuration has passed Check.
type Request struct {
	Config  Config
	Confirm string // the digest of the impact that the caller confirms
	IfMatch *int64 // the version that must be in force; nil allows any
}

// ImpactError is returned for a change whose impact the caller has not confirmed.
type ImpactError struct {
	Digest  string
	Effects []Effect
}

// Error implements error.
func (e *ImpactError) Error() string { return DescribeImpact(e.Effects) }

// settleWithin is how long Replace waits until a stored change is settled. An instance that does not respond delays the
// change no longer than its lease, so a longer wait would not help. Replace returns at the time answerBefore before the
// caller's deadline.
const (
	settleWithin = Lease + 2*time.Second
	answerBefore = time.Second
)

// Replace checks that the impact is confirmed, stores the configuration and waits until the change is settled. An
// unchanged configuration is not stored again; then Replace waits until the earlier change is settled.
func (c *Changes) Replace(ctx context.Context, r Request) (*Version, error) {
	document, err := form(r.Config)
	if err != nil {
		return nil, err
	}
	var stored *Version
	err = pg.InTx(ctx, c.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		stored, err = c.store(ctx, tx, r, document)
		return err
	})
	if err != nil {
		return nil, err
	}
	return stored, c.settled(ctx, stored.Number)
}

func form(c Config) ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the hardware configuration: %w", err)
	}
	document, err := canon.JSON(raw)
	if err != nil {
		return nil, fmt.Errorf("encode the hardware configuration: %w", err)
	}
	return document, nil
}

// store computes the impact and stores the configuration under an exclusive lock. Admissions take a shared lock, so no
// job is admitted between the impact check and the commit.
func (c *Changes) store(ctx context.Context, tx pgx.Tx, r Request, document []byte) (*Version, error) {
	now, err := c.Store.Lock(ctx, tx)
	if err != nil {
		return nil, err
	}
	if r.IfMatch != nil && *r.IfMatch != now.Number {
		return nil, fault.New(fault.Conflict, "version", "the hardware configuration has changed; it is now version %d", now.Number)
	}
	if bytes.Equal(now.Document, document) {
		return now, nil
	}
	uses, err := c.Store.Uses(ctx, tx)
	if err != nil {
		return nil, err
	}
	if effects := Impact(&now.Config, &r.Config, uses); len(effects) > 0 {
		digest, err := Digest(now.Number, document, effects)
		if err != nil {
			return nil, err
		}
		if r.Confirm != digest {
			return nil, &ImpactError{Digest: digest, Effects: effects}
		}
	}
	next := &Version{Number: now.Number + 1, Document: document, Config: r.Config}
	at, err := pg.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := c.Store.Insert(ctx, tx, next.Number, document, c.Audit.Actor(ctx), at); err != nil {
		return nil, err
	}
	if _, err := c.Queue.InsertTx(ctx, tx, SettleArgs{Version: next.Number}, &river.InsertOpts{MaxAttempts: settleTries}); err != nil {
		return nil, err
	}
	return next, pg.Notify(ctx, tx, db.HardwareTopic)
}

// settled waits until a Settler has settled the change, or until shortly before the caller's deadline.
func (c *Changes) settled(ctx context.Context, number int64) error {
	waiting, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		waiting, cancel = context.WithDeadline(waiting, deadline.Add(-answerBefore))
		defer cancel()
	}
	err := await(waiting, c.Hub, c.Clock, func(ctx context.Context) (bool, error) { return c.Store.Settled(ctx, c.Pool, number) })
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fault.New(fault.Dependency, "unsettled",
			"version %d is stored and will take effect everywhere; not every instance has taken it over yet", number).Wrap(err)
	}
	return err
}
