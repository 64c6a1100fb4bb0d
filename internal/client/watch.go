package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Watcher follows streams across broken connections and restarts of the server.
type Watcher struct {
	Client *Client
	Clock  clock.Clock
	// Backoff is the wait before the stream is opened again. Tries count from 0 after each event.
	Backoff clock.Backoff
	// Silence is the time without any byte after which a connection counts as broken. Streams send a comment every 15
	// seconds. 0 means no limit.
	Silence time.Duration
	// Retrying is called before each wait with its cause, if it is not nil.
	Retrying func(cause error, wait time.Duration)
}

// Watch follows a stream from the event after lastID until its event `eof`, and calls handle with each event, no event
// twice. If the connection breaks, Watch opens the stream again after the last event that handle has received. It
// returns the error of handle, the cause of the end of ctx, or a response that a repeat cannot change, such as 404.
func (w Watcher) Watch(ctx context.Context, path, lastID string, handle func(Event) error) error {
	for try := 0; ; try++ {
		var handled *handlerError
		id, err := w.once(ctx, path, lastID, func(e Event) error {
			if e.Name == eventError {
				// The response to the next request shows whether a repeat can help.
				return fmt.Errorf("%w: %s", errFailed, e.Data)
			}
			try = -1
			if err := handle(e); err != nil {
				return &handlerError{err}
			}
			return nil
		})
		lastID = id
		switch {
		case err == nil:
			return nil
		case errors.As(err, &handled):
			return handled.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !Retryable(err):
			return err
		}
		if err := w.pause(ctx, err, max(try, 0)); err != nil {
			return err
		}
	}
}

// Retry calls fn until it succeeds, until its error is one that a repeat cannot change, or until ctx ends; the error is
// then the cause of that.
func (w Watcher) Retry(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		err := fn()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !Retryable(err):
			return err
		}
		if err := w.pause(ctx, err, try); err != nil {
			return err
		}
	}
}

// pause waits before the next try. It returns why ctx has ended.
func (w Watcher) pause(ctx context.Context, cause error, try int) error {
	wait := w.Backoff.Wait(try)
	if w.Retrying != nil {
		w.Retrying(cause, wait)
	}
	if clock.Sleep(ctx, w.Clock, wait) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// once follows the stream on one connection. The time in which handle works does not count as silence.
func (w Watcher) once(ctx context.Context, path, lastID string, handle func(Event) error) (string, error) {
	if w.Silence <= 0 {
		return w.Client.Follow(ctx, path, lastID, handle)
	}
	listening, cancel := context.WithCancelCause(ctx)
	timer := w.Clock.NewTimer(w.Silence)
	var watched sync.WaitGroup
	watched.Go(func() {
		select {
		case <-timer.C():
			cancel(errSilent)
		case <-listening.Done():
		}
	})
	defer watched.Wait()
	defer timer.Stop()
	defer cancel(nil)
	id, err := w.Client.follow(listening, path, lastID, func() { timer.Reset(w.Silence) }, func(e Event) error {
		timer.Stop()
		defer timer.Reset(w.Silence)
		return handle(e)
	})
	if _, broken := errors.AsType[*UnreachableError](err); broken && errors.Is(context.Cause(listening), errSilent) {
		err = errSilent
	}
	return id, err
}

// eventError is the name of the event that a server sends before it ends a stream because of a failure.
const eventError = "error"

// errFailed reports an event of that name.
var errFailed = errors.New("the server reports a failure in the stream")

// errSilent reports a connection on which nothing has arrived for too long.
var errSilent = errors.New("the server has sent nothing for too long")

// handlerError marks an error of a handler, in contrast to those of the connection.
type handlerError struct{ error }

// Retryable reports whether the same request may succeed later: the server could not be reached, the connection broke, or
// the response was 429, 502, 503 or 504. It is false for errors of a disk or of standard output, and for an invalid
// certificate.
func Retryable(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if errors.Is(err, ErrUnexpectedEnd) || errors.Is(err, errSilent) || errors.Is(err, errFailed) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	_, ok := errors.AsType[*UnreachableError](err)
	return ok
}
