package tablefeed

import (
	"context"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

// Stream sends the events of one stream to its client.
type Stream[R any] interface {
	// Open shows the client that its request is accepted.
	Open() error
	Row(eventID int64, row R) error
	Gone(eventID int64, rowID string) error
	Reset(eventID int64, reason string) error
}

// Watch sends the changes of the rows that match the filter and that the caller of ctx may see, and a reset first if the
// stream does not continue after an earlier event. It ends only with an error.
//
// A row is sent as it was after the change with the number of the event, at most once for each number. A change is not
// sent if the row had changed again by the time the change was read; the later change is then sent. Each change is checked
// with the visibility that the row had directly before and after it, so a row that becomes hidden is gone at once. When
// the rights of the caller change, the gateway ends the stream within its recheck interval, and the client that
// reconnects gets a reset.
func (t *Tables[R]) Watch(ctx context.Context, after int64, filter Filter, to Stream[R]) error {
	w := &watch[R]{Tables: t, to: to, interest: Interest{Scope: authn.ScopeOf(ctx), Filter: filter}}
	var err error
	if w.mark, err = markOf(authn.CallerOf(ctx), w.interest); err != nil {
		return err
	}
	release, err := t.take()
	if err != nil {
		return err
	}
	defer release()
	var reason string
	w.at, reason = begin(after, w.mark)
	if err := w.check(ctx, w.interest); err != nil {
		return err
	}
	if err := to.Open(); err != nil {
		return err
	}
	for {
		if reason != "" {
			if err := w.reset(ctx, reason); err != nil {
				return err
			}
		}
		if reason, err = w.follow(ctx); err != nil {
			return err
		}
	}
}

// watch is one stream.
type watch[R any] struct {
	*Tables[R]

	to       Stream[R]
	interest Interest
	mark     int64
	at       int64 // the position up to which all changes were sent
}

// reset makes the client read the list again. The list contains all changes up to the position of the reset.
func (w *watch[R]) reset(ctx context.Context, reason string) (err error) {
	if w.at, err = w.newest(ctx); err != nil {
		return err
	}
	w.count.reset(ctx, reason)
	return w.to.Reset(eventID(w.at, w.mark), reason)
}

// follow sends the changes after the position of the stream until it fails, or a reset is needed for the returned reason.
func (w *watch[R]) follow(ctx context.Context) (reason string, err error) {
	reason = resetExpired
	for {
		page, err := w.read(ctx, w.at, w.interest)
		if err != nil {
			return "", err
		}
		if page.Oldest > w.at || page.Last < w.at || page.Last-w.at > maxBehind {
			return reason, nil
		}
		if err := w.sendAll(ctx, page.Changes, 0); err != nil {
			return "", err
		}
		reason, w.at = resetSlow, page.End
		if page.End < page.Last {
			continue
		}
		x := &table[R]{
			ctx: ctx, interest: w.interest, at: w.at, admitted: make(chan bool, 1), batches: make(chan events[R], queueSize),
		}
		if ok, err := w.join(ctx, x); err != nil {
			return "", err
		} else if ok {
			return resetSlow, w.live(ctx, x)
		}
	}
}

// live sends the changes that the table receives. It returns nil when the table was removed.
func (w *watch[R]) live(ctx context.Context, x *table[R]) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch, ok := <-x.batches:
			if !ok {
				return nil
			}
			if err := w.sendAll(ctx, batch.changes, batch.k); err != nil {
				return err
			}
		}
	}
}

// sendAll sends the events that the changes have for the interest k.
func (w *watch[R]) sendAll(ctx context.Context, changes []Change[R], k int32) error {
	for _, c := range changes {
		var err error
		switch {
		case slices.Contains(c.Shown, k):
			w.count.event(ctx, string(w.source.Feed))
			err = w.to.Row(eventID(c.Seq, w.mark), c.Row)
		case slices.Contains(c.Gone, k):
			w.count.event(ctx, "gone")
			err = w.to.Gone(eventID(c.Seq, w.mark), c.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
