// Package e2eflow runs the complete workflow through the REST API: sign in, push a dataset, submit a job, follow the
// training, register the model, deploy it, chat with it. Each stage is a method, so that the demo can report progress
// and tests can inject failures between stages. Temporary failures, such as a restart of the server, are retried.
// Every creation carries an idempotency key, so that a retry does not create a second object.
package e2eflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Loop is one run of the workflow. The stages set the fields from Job on and must run one after the other. Only
// FollowLogs and FollowMetrics may run at the same time as AwaitState, because a job's ID never changes.
type Loop struct {
	Client *client.Client
	Clock  clock.Clock
	// Name is the name of the dataset, the job and the model that the stages create.
	Name string
	// Timeout is the maximum duration of one stage.
	Timeout time.Duration

	Job        Job
	Deployment Deployment
	Revision   Revision
	Token      secret.String
	TokenID    string
}

// ErrTimeout means that a stage took longer than Loop.Timeout.
var ErrTimeout = errors.New("timed out")

// pollEvery is the pause between two reads of a state that has no stream.
const pollEvery = 100 * time.Millisecond

// again returns the pauses between the attempts of a request.
func again() process.Backoff { return process.Backoff{Min: pollEvery, Max: time.Second, Jitter: 0.5} }

// Login signs in. Later requests of l.Client send the access token.
func (l *Loop) Login(ctx context.Context, username string, password secret.String) error {
	var out struct {
		Token string `json:"token"`
	}
	body := map[string]string{"username": username, "password": password.Reveal()}
	err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Post(ctx, "/api/auth/login", body, &out) })
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	l.Client = l.Client.With(secret.New(out.Token))
	return nil
}

// create sends a POST with one idempotency key and retries temporary failures.
func (l *Loop) create(ctx context.Context, path string, body, out any) error {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("generate an idempotency key: %w", err)
	}
	keyed := l.Client.WithIdempotencyKey(hex.EncodeToString(key[:]))
	return l.retry(ctx, func(ctx context.Context) error { return keyed.Post(ctx, path, body, out) })
}

// get sends a GET and retries temporary failures.
func (l *Loop) get(ctx context.Context, path string, out any) error {
	return l.retry(ctx, func(ctx context.Context) error { return l.Client.Get(ctx, path, nil, out) })
}

// within returns a context that ends after l.Timeout, and its cancel function, which must be called.
func (l *Loop) within(ctx context.Context) (limited context.Context, end func()) {
	limited, cancel := context.WithCancel(ctx)
	timer, over := l.Clock.NewTimer(l.Timeout), make(chan struct{})
	go func() {
		defer close(over)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-limited.Done():
		}
	}()
	return limited, func() { cancel(); <-over }
}

// retry calls the function fn until it succeeds, it fails with an error that is not temporary, or l.Timeout has passed.
func (l *Loop) retry(ctx context.Context, fn func(ctx context.Context) error) error {
	limited, end := l.within(ctx)
	defer end()
	var last error // the error of the last attempt that was not cancelled
	for n := 0; ; n++ {
		err := fn(limited)
		if err != nil && limited.Err() != nil {
			return ended(ctx, cmp.Or(last, err))
		}
		if err == nil || !passing(err) {
			return err
		}
		last = err
		if again().Wait(limited, l.Clock, n) != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns the error of an interrupted stage: the cause if the caller's context ended, otherwise ErrTimeout.
func ended(caller context.Context, last error) error {
	switch {
	case caller.Err() != nil:
		return fmt.Errorf("cancelled: %w", context.Cause(caller))
	case last == nil:
		return ErrTimeout
	default:
		return fmt.Errorf("%w: %w", ErrTimeout, last)
	}
}

// passing reports whether err is temporary: the connection failed, or the server or the gateway was unavailable.
func passing(err error) bool {
	if failed, ok := errors.AsType[*client.Error](err); ok {
		return failed.Status == http.StatusBadGateway || failed.Status == http.StatusServiceUnavailable
	}
	// Do not test for net.Error: every *url.Error implements it, whatever its cause.
	if _, isCut := errors.AsType[*net.OpError](err); isCut {
		return true
	}
	return errors.Is(err, client.ErrUnexpectedEnd) || isEOF(err)
}

// await calls the function look until it returns true or an error, or l.Timeout has passed.
func (l *Loop) await(ctx context.Context, look func(ctx context.Context) (done bool, err error)) error {
	limited, end := l.within(ctx)
	defer end()
	for {
		done, err := look(limited)
		if err != nil && limited.Err() != nil {
			return ended(ctx, err) // look was cancelled
		}
		if err != nil || done {
			return err
		}
		if clock.Sleep(limited, l.Clock, pollEvery) != nil {
			return ended(ctx, nil)
		}
	}
}
