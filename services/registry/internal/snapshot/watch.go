package snapshot

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

type watchStream = grpc.BidiStreamingServer[registrypeerv1.WatchRequest, registrypeerv1.WatchResponse]

// watch is the server side of one replica's stream.
type watch struct {
	*Server

	reader  reader
	stream  watchStream
	replica string
	// sent is the epoch of the last state that was sent completely on this stream, or 0 if there is none. The replica
	// applies messages in order, so everything that is sent later is applied after that state.
	sent int64
}

func (s *Server) watch(stream watchStream) *watch {
	return &watch{Server: s, reader: reader{pool: s.Pool, store: s.Store, revisions: s.Revisions}, stream: stream}
}

// take stores the epoch that the replica has applied and grants a renewal. If the replica lacks the state that was
// current at the grant, that state is sent before the grant, so that a replica with a renewed lease never serves
// outdated state.
func (w *watch) take(ctx context.Context, in *registrypeerv1.WatchRequest) error {
	if id.Check(id.Replica, in.GetReplicaId()) != nil || (w.replica != "" && w.replica != in.GetReplicaId()) {
		return fault.New(fault.Refused, "replica", "a stream belongs to one replica; replica_id must be valid and must not change")
	}
	if !in.GetParts() {
		return fault.New(fault.Refused, "replica_outdated", "this replica of inference is older than the registry, which sends its state in parts; upgrade inference to the version of the registry")
	}
	w.replica = in.GetReplicaId()
	if in.GetRenewal() == 0 {
		return w.Ledger.Ack(ctx, w.replica, in.GetAckedEpoch())
	}
	granted, err := w.Ledger.Renew(ctx, w.replica, in.GetAckedEpoch())
	if err != nil {
		return err
	}
	out := &registrypeerv1.WatchResponse{Epoch: w.sent, Renewed: in.GetRenewal(), Lease: durationpb.New(granted.Lease)}
	if granted.Epoch > w.sent {
		return w.update(ctx, out)
	}
	return w.send(ctx, out)
}

// news sends the changes since the last state that was sent, if there are any. A replica gets nothing before its first
// request.
func (w *watch) news(ctx context.Context) error {
	if w.replica == "" {
		return nil
	}
	now, err := epoch.Current(ctx, w.Pool)
	if err != nil || now <= w.sent {
		return err
	}
	return w.update(ctx, &registrypeerv1.WatchResponse{})
}

// maxTries is the maximum number of attempts of update to send a state while too many rows change.
const maxTries = 3

var errTooMany = errors.New("the state of inference changes faster than it can be sent")

// update sends the part of the current state that the replica lacks. The message last is sent at the end, with the rest
// of the state.
func (w *watch) update(ctx context.Context, last *registrypeerv1.WatchResponse) error {
	from := w.sent
	out := &outbox{send: func(part *registrypeerv1.Snapshot) error {
		return w.send(ctx, &registrypeerv1.WatchResponse{Epoch: from, Snapshot: part})
	}}
	out.proceed()
	for range maxTries {
		var err error
		if from == 0 {
			if from, err = epoch.Current(ctx, w.Pool); err != nil {
				return err
			}
			out.begin()
			if err := w.reader.all(ctx, out); err != nil {
				return err
			}
		}
		now, known, err := w.changes(ctx, from, out)
		switch {
		case err != nil:
			return err
		case !known:
			from = 0 // send the complete state
			continue
		}
		last.Epoch, last.Snapshot = now, out.rest
		if err := w.send(ctx, last); err != nil {
			return err
		}
		w.sent = now
		return nil
	}
	return errTooMany
}

// changes sends the changes after the given epoch, up to the current epoch, which it returns. The result known is false
// if the changes are not known or too many; changes then sends nothing.
func (w *watch) changes(ctx context.Context, from int64, out *outbox) (now int64, known bool, err error) {
	if now, err = epoch.Current(ctx, w.Pool); err != nil {
		return 0, false, err
	}
	changed, known, err := epoch.ChangesBetween(ctx, w.Pool, from, now)
	if err != nil || !known {
		return now, false, err
	}
	return now, true, w.reader.changed(ctx, changed, out)
}

func (w *watch) send(ctx context.Context, out *registrypeerv1.WatchResponse) error {
	w.Metrics.sent(ctx, out)
	if err := w.stream.Send(out); err != nil {
		return fmt.Errorf("send a snapshot: %w", err)
	}
	return nil
}
