package idempotency

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Once makes the create methods of a service repeatable. Subject and key come from the context of the request.
type Once struct {
	Pool *pgxpool.Pool
	Keys *Store
}

// Replay fills the message answer with the stored response of an earlier request with the same key and reports whether
// a response was stored. It only reads, because most requests are not repeats. While an earlier request is still being
// processed, Replay finds no response; Do then waits for that request.
func (o *Once) Replay(ctx context.Context, method string, body, answer proto.Message) (bool, error) {
	r, err := newRequest(ctx, method, body)
	if err != nil || r.Key == "" {
		return false, err
	}
	kept, found, err := o.Keys.Stored(ctx, o.Pool, r)
	if err != nil || !found {
		return false, err
	}
	err = decode(kept, answer)
	return err == nil, err
}

// Do calls the function create in a transaction. This function must fill the message answer, which Do then stores and
// which must not contain a secret. If the request is a repeat, Do instead fills the message with the stored response.
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

// newRequest returns the request with its body as canonical JSON. The binary form may differ between two versions of
// this program, and a repeat after an upgrade would then look like a different request. The request also contains the
// binary form as Former, to match the hashes that earlier versions stored.
func newRequest(ctx context.Context, method string, body proto.Message) (Request, error) {
	r := Request{Subject: authn.CallerOf(ctx).Subject, Route: method, Key: request.IdempotencyKey(ctx)}
	if r.Key == "" {
		return r, nil
	}
	written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(body)
	if err == nil {
		r.Body, err = canon.JSON(written)
	}
	if err == nil {
		r.Former, err = proto.MarshalOptions{Deterministic: true}.Marshal(body)
	}
	if err != nil {
		return Request{}, fmt.Errorf("encode the request to compare: %w", err)
	}
	return r, nil
}

func decode(kept []byte, answer proto.Message) error {
	if err := proto.Unmarshal(kept, answer); err != nil {
		return fmt.Errorf("decode the stored response: %w", err)
	}
	return nil
}
