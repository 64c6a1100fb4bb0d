package idem

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

// Once makes the creating methods of a service repeatable: subject, key and body are those of the
// request under the context.
type Once struct {
	Pool *pgxpool.Pool
	Keys *Store
}

// errFresh rolls back a look that found no kept answer, so that the look leaves nothing behind.
var errFresh = errors.New("a first request")

// Replay fills answer from an earlier request under the same key, if there was one.
func (o *Once) Replay(ctx context.Context, method string, body, answer proto.Message) (bool, error) {
	r, err := ask(ctx, method, body)
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
		return read(kept, answer)
	})
	if errors.Is(err, errFresh) {
		return false, nil
	}
	return err == nil, err
}

// Do runs create in a transaction unless the request is a repeat; create fills answer with what may
// be kept, which is everything but secrets. A repeat gets the answer that was kept.
func (o *Once) Do(
	ctx context.Context, method string, body, answer proto.Message, create func(ctx context.Context, tx pgx.Tx) error,
) error {
	r, err := ask(ctx, method, body)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := o.Keys.Claim(ctx, tx, r)
		if err != nil {
			return err
		}
		if !fresh {
			return read(kept, answer)
		}
		if err := create(ctx, tx); err != nil {
			return err
		}
		raw, err := proto.Marshal(answer)
		if err != nil {
			return fmt.Errorf("write the answer to keep: %w", err)
		}
		return o.Keys.Finish(ctx, tx, r, raw)
	})
}

// Set makes dst equal to src: how create fills its answer.
func Set(dst, src proto.Message) {
	proto.Reset(dst)
	proto.Merge(dst, src)
}

func ask(ctx context.Context, method string, body proto.Message) (Request, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(body)
	if err != nil {
		return Request{}, fmt.Errorf("write the request to compare: %w", err)
	}
	return Request{Subject: authn.Of(ctx).Subject, Route: method, Key: request.IdempotencyKey(ctx), Body: raw}, nil
}

func read(kept []byte, answer proto.Message) error {
	if err := proto.Unmarshal(kept, answer); err != nil {
		return fmt.Errorf("read the kept answer: %w", err)
	}
	return nil
}
