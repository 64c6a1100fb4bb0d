// Package loop walks the whole loop through the REST API: sign in, push a dataset, submit a job, follow
// the training, register the model, deploy it, chat with it. Each stage is a method, so that the demo
// narrates between them and the suites break things between them. What is passing (a server that is
// being restarted) is tried again; every creation carries a key and is done once.
package loop

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
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Loop is one walk. The fields below the settings are filled by the stages, which come one after the
// other; what follows a job's streams may run beside AwaitState, because a job's id never changes.
type Loop struct {
	Client *client.Client
	Clock  clock.Clock
	// Name keeps this walk's resources apart from others'.
	Name string
	// Patience is how long one stage waits for something to come true.
	Patience time.Duration

	Job        Job
	Deployment Deployment
	Revision   Revision
	Token      secret.String
	TokenID    string
}

// ErrImpatient says that a stage waited for longer than its patience.
var ErrImpatient = errors.New("it did not come true in time")

// pollEvery is the pause between looks at a state that no stream shows.
const pollEvery = 100 * time.Millisecond

// again is the pause before a request is sent again.
func again() run.Backoff { return run.Backoff{Min: pollEvery, Max: time.Second, Jitter: 0.5} }

// Login signs in and keeps the access token.
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

// create POSTs under one key until there is an answer.
func (l *Loop) create(ctx context.Context, path string, body, out any) error {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("draw a key: %w", err)
	}
	keyed := l.Client.Keyed(hex.EncodeToString(key[:]))
	return l.retry(ctx, func(ctx context.Context) error { return keyed.Post(ctx, path, body, out) })
}

// get reads until there is an answer.
func (l *Loop) get(ctx context.Context, path string, out any) error {
	return l.retry(ctx, func(ctx context.Context) error { return l.Client.Get(ctx, path, nil, out) })
}

// within bounds a stage by the walk's patience; end must be called.
func (l *Loop) within(ctx context.Context) (limited context.Context, end func()) {
	limited, cancel := context.WithCancel(ctx)
	timer, over := l.Clock.NewTimer(l.Patience), make(chan struct{})
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

// retry calls fn again while it fails in a way that passes.
func (l *Loop) retry(ctx context.Context, fn func(ctx context.Context) error) error {
	limited, end := l.within(ctx)
	defer end()
	var last error // what was told before the try that was cut
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

// ended says why a stage gave up: because its caller did, or for want of patience.
func ended(caller context.Context, last error) error {
	switch {
	case caller.Err() != nil:
		return fmt.Errorf("given up: %w", context.Cause(caller))
	case last == nil:
		return ErrImpatient
	default:
		return fmt.Errorf("%w: %w", ErrImpatient, last)
	}
}

// passing tells a server that is away for a moment from one that refuses.
func passing(err error) bool {
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return answer.Status == http.StatusBadGateway || answer.Status == http.StatusServiceUnavailable
	}
	// A *url.Error is a net.Error whatever is inside, so that says nothing.
	if _, isCut := errors.AsType[*net.OpError](err); isCut {
		return true
	}
	return errors.Is(err, client.ErrCut) || isEOF(err)
}

// await looks until done answers true.
func (l *Loop) await(ctx context.Context, look func(ctx context.Context) (done bool, err error)) error {
	limited, end := l.within(ctx)
	defer end()
	for {
		done, err := look(limited)
		if err != nil && limited.Err() != nil {
			return ended(ctx, err) // in the middle of a look
		}
		if err != nil || done {
			return err
		}
		if clock.Sleep(limited, l.Clock, pollEvery) != nil {
			return ended(ctx, nil)
		}
	}
}
