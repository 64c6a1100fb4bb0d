package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Once makes the create methods of a service repeatable. Subject and key come from the context of the request.
type Once struct {
	Pool *pgxpool.Pool
	Keys *Store
}

// errFresh rolls back the transaction of Replay if no response is stored, so that the key remains unclaimed.
var errFresh = errors.New("no response is stored for the idempotency key")

// Replay fills answer with the stored response of an earlier request with the same key and reports whether a response
// was stored.
func (o *Once) Replay(ctx context.Context, method string, body, answer proto.Message) (bool, error) {
	r, err := newRequest(ctx, method, body)
	if err != nil || r.Key == "" {
		return false, err
	}
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := o.Keys.Claim(ctx, tx, r)
		if err != nil {
			return err
		}
		if fresh {
			return errFresh
		}
		return decode(kept, answer)
	})
	if errors.Is(err, errFresh) {
		return false, nil
	}
	return err == nil, err
}

// Do calls create in a transaction. If the request is a repeat, Do fills answer with the stored response instead.
// create must fill answer, which is stored and must not contain a secret.
func (o *Once) Do(
	ctx context.Context, method string, body, answer proto.Message, create func(ctx context.Context, tx pgx.Tx) error,
) error {
	r, err := newRequest(ctx, method, body)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := o.Keys.Claim(ctx, tx, r)
		if err != nil {
			return err
		}
		if !fresh {
			return decode(kept, answer)
		}
		if err := create(ctx, tx); err != nil {
			return err
		}
		raw, err := proto.Marshal(answer)
		if err != nil {
			return fmt.Errorf("encode the response to store: %w", err)
		}
		return o.Keys.Finish(ctx, tx, r, raw)
	})
}

// Set makes dst equal to src. Create functions use it to fill the response.
func Set(dst, src proto.Message) {
	proto.Reset(dst)
	proto.Merge(dst, src)
}

func newRequest(ctx context.Context, method string, body proto.Message) (Request, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(body)
	if err != nil {
		return Request{}, fmt.Errorf("encode the request to compare: %w", err)
	}
	return Request{Subject: authn.CallerOf(ctx).Subject, Route: method, Key: request.IdempotencyKey(ctx), Body: raw}, nil
}

func decode(kept []byte, answer proto.Message) error {
	if err := proto.Unmarshal(kept, answer); err != nil {
		return fmt.Errorf("decode the stored response: %w", err)
	}
	return nil
}
